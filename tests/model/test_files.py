"""A model file gives back the model that was saved, or says why not; it never gives back another one."""

import json
import os
import pickle
import warnings
from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as save_tensors

import ahofm
from ahofm import AHOFMRegressor
from ahofm.columns import Categorical, Cyclic, Linear, RandomWalk, Spline, SplineIID
from ahofm.columns.linear import EmptyBasis
from ahofm.columns.table import read_table
from ahofm.families import (
    FAMILIES,
    Bernoulli,
    Beta,
    Gamma,
    Gaussian,
    GaussianLocationScale,
    Huber,
    Laplace,
    LogLogistic,
    LogNormal,
    Multinomial,
    NegativeBinomial,
    Ordinal,
    Poisson,
    Quantile,
    QuasiBinomial,
    QuasiPoisson,
    Tweedie,
    Weibull,
    ZeroInflatedPoisson,
)
from ahofm.fit import Settings, fit_model
from ahofm.model.archive import separate
from ahofm.model.files import VERSION, ModelFileError, _digest, load, save
from ahofm.model.functions_view import FunctionsView
from ahofm.model.packed_arrays import unpack
from ahofm.model.stored_once import equal_tensors, restore
from ahofm.model.trace import Reason, Record

N = 80

COLUMNS = {
    "spline": Spline(n_basis=7, outside="linear"),
    "knots": Spline(knots=(0.3, 0.6), degree=2, penalty_order=1),
    "binned": Spline(n_basis=5, max_codes=9),
    "walk": RandomWalk(outside="linear"),
    "mixed": SplineIID(n_basis=5),
    "cyclic": Cyclic(period=24.0, n_basis=6),
    "linear": Linear(),
    "names": Categorical(),
}

FAMILY_SETTINGS = [
    Gaussian(),
    Gaussian("log"),
    Gaussian("inverse"),
    Bernoulli(),
    Multinomial(3),
    Multinomial(np.int64(3)),
    Poisson(),
    Poisson("identity"),
    QuasiPoisson(),
    QuasiBinomial(),
    NegativeBinomial(2.5),
    Gamma(),
    Gamma("inverse"),
    Tweedie(1.3),
    Tweedie(np.float32(1.7)),
    Quantile(0.9),
    Quantile(0.1, smoothing=0.05),
    Laplace(),
    Huber(),
    Huber(1),
    GaussianLocationScale(),
    Ordinal(),
    Ordinal((-1.0, 0.5), low=3),
    Beta(),
    Beta(7.5),
    ZeroInflatedPoisson(),
    LogNormal(),
    LogLogistic(0.5),
    Weibull(2),
]


def table(seed=0):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({name: rng.random(N) for name in ("spline", "knots", "binned", "linear")})
    X["walk"] = rng.integers(0, 9, N).astype(float)
    X["mixed"] = rng.integers(0, 12, N).astype(float)
    X["cyclic"] = rng.integers(0, 24, N).astype(float)
    X["names"] = rng.integers(0, 5, N).astype(float)
    X["text"] = rng.choice(["a", "ü €", "", "0", '"\\\n'], N)
    X["two"] = rng.integers(0, 2, N)
    X["constant"] = 3.0
    X["one_text"] = "always"
    X["gone"] = np.nan
    X["flag"] = np.where(rng.random(N) < 0.5, np.nan, 1.0)  # constant where it is there, with an effect when it is not
    X.loc[::7, ["spline", "walk", "mixed", "names"]] = np.nan
    X.loc[::9, "text"] = None
    return X


def target(family, seed=1):
    y = np.random.default_rng(seed).gamma(2.0, size=N) + 0.1
    if isinstance(family, (Bernoulli, Multinomial)):
        return np.arange(N) % max(2, family.n_eta)
    if isinstance(family, Ordinal):
        return 3.0 + np.arange(N) % 3
    if isinstance(family, ZeroInflatedPoisson):
        return np.floor(y) * (np.arange(N) % 3 > 0)
    if isinstance(family, Beta):
        return y / (1.0 + y)
    return np.floor(y) if isinstance(family, (Poisson, NegativeBinomial)) else y


def fit(X, family, classes=None, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plan = Settings(**{"order": 2, "rank": 2, "max_iter": 5, "solver": "variational", **options})
        return fit_model(X, target(family), family=family, settings=plan, classes=classes)


@cache
def rich_model():
    """Every kind of column, two orders of factors."""
    return fit(table(), Multinomial(3), ("x", "y", "z"), columns=COLUMNS, order=3, rank={3: 1, 2: 2})


def plain_model():
    """The same with loadings of one, as earlier versions had them."""

    def plain(predictors):
        return tuple(predictor.unloaded() for predictor in predictors)

    model = rich_model()
    lower = tuple(replace(part, linear_predictors=plain(part.linear_predictors)) for part in model.lower)
    return replace(model, linear_predictors=plain(model.linear_predictors), lower=lower)


@cache
def small_model(family=None, classes=None):
    return fit(table()[["spline", "text"]], family or Gaussian(), classes)


def round_trip(model, folder):
    save(model, folder / "model.safetensors")
    return load(folder / "model.safetensors")


def assert_same(a, b):
    """Equal in type and value, however deep."""
    a, b = (tuple(one) if isinstance(one, FunctionsView) else one for one in (a, b))
    assert type(a) is type(b)
    if isinstance(a, np.ndarray):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)
    elif isinstance(a, (tuple, dict)):
        assert len(a) == len(b)
        if isinstance(a, dict):
            assert list(a) == list(b)
            a, b = tuple(a.values()), tuple(b.values())
        for x, y in zip(a, b, strict=True):
            assert_same(x, y)
    elif hasattr(a, "__dataclass_fields__"):
        for field in fields(a):
            assert_same(getattr(a, field.name), getattr(b, field.name))
    else:
        assert a == b


def single(model):
    """With the roots of its band in single precision, as files have them."""
    roots = tuple(root.astype(np.float32).astype(np.float64) for root in model.band.roots)
    return replace(model, band=replace(model.band, roots=roots))


# ---- what was saved comes back


def test_roots_of_a_band_are_packed_in_single_precision(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(200, 3))
    y = np.sin(3 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.normal(size=200)
    model = AHOFMRegressor(order=2, effort="fast", random_state=0).fit(X, y)
    model.save(path := tmp_path / "model")
    packed = separated(path.read_bytes())[1]["model.band.roots.0"]
    size = len(model.band_.roots[0])
    assert (packed.dtype, packed.shape) == (np.float32, (size * (size + 1) // 2,))
    back = ahofm.load(path)
    np.testing.assert_allclose(back.band_.eta(back.model_.encoder.encode(read_table(X))), std(model, X), rtol=1e-5)
    np.testing.assert_allclose(back.predict_interval(X), model.predict_interval(X), rtol=1e-5)


def shared_model():
    """Main effects of their own, factors of the first linear predictor."""
    model = rich_model()
    first = model.linear_predictors[0].coef
    coefs = [
        [np.column_stack([own[:, 0], one[:, 1:]]) for own, one in zip(part.coef, first, strict=True)]
        for part in model.linear_predictors
    ]
    parts = zip(model.linear_predictors, coefs, strict=True)
    return replace(model, linear_predictors=tuple(replace(part, coef=tuple(coef)) for part, coef in parts))


def std(model, X):
    return model.band_.eta(model.model_.encoder.encode(read_table(X)))


@pytest.mark.slow
def test_every_kind_of_column_comes_back(tmp_path):
    model = rich_model()
    back = round_trip(model, tmp_path)
    assert_same(back, model)
    kinds = {type(book.kind).__name__ for book in back.encoder.codebooks}
    assert kinds == {"Spline", "RandomWalk", "SplineIID", "Cyclic", "Linear", "Categorical", "NoneType"}
    assert any(isinstance(book.functions, EmptyBasis) for book in back.encoder.codebooks)
    X = table(seed=5)
    X.loc[3, "text"] = "unseen"
    X.loc[4, ["spline", "walk", "linear"]] = 7.0  # outside the range
    assert back.eta(X).tobytes() == model.eta(X).tobytes()
    np.testing.assert_array_equal(back.predict(X), model.predict(X))
    for ours, theirs in zip(back.tables(), model.tables(), strict=True):
        assert ours.main.tobytes() == theirs.main.tobytes()


def test_settings_are_of_every_family():
    assert {type(family) for family in FAMILY_SETTINGS} == set(FAMILIES.values())


def without_loadings(content, tensors, where="model"):
    """As versions before 4 had it: ranks of the model, and functions that loadings of one go with."""
    parts = content["linear_predictors"]
    content["ranks"] = {
        order: len(tensors[f"{where}.linear_predictors.0.loadings.{order}"]) for order in parts[0]["loadings"]
    }
    for k, part in enumerate(parts):
        for order in part["loadings"]:
            assert (tensors.pop(f"{where}.linear_predictors.{k}.loadings.{order}") == 1.0).all()
        del part["loadings"], part["neutral"]
        part["type"] = "Terms"
    for k, lower in enumerate(content.get("lower", ())):
        without_loadings(lower, tensors, f"{where}.lower.{k}")


def test_files_of_version_1_are_read(tmp_path):
    """Without what later versions know: gains of orders, the Pearson dispersion, concurvity and tests of a band."""
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(N, 2))
    model = AHOFMRegressor(order=1, random_state=0).fit(X, X[:, 0] + rng.normal(size=N)).with_uncertainty().model_
    save(model, tmp_path / "new")
    data = (tmp_path / "new").read_bytes()
    content, tensors = separated(data)
    restore(content, tensors, np.inf)
    content["trace"]["records"] = json.loads(tensors.pop("model.trace.records").tobytes())
    for name in ("gains", "pearson_dispersion"):
        del content[name]
    for name in ("concurvity", "tests", "widths", "loadings"):
        del content["band"][name]
    tensors = {name: array for name, array in tensors.items() if not name.startswith("model.band.concurvity")}
    without_loadings(content, tensors)
    text = json.dumps(content)
    old = {"format": "ahofm", "version": "1", "model": text, "sha256": _digest(text, tensors)}
    (tmp_path / "old").write_bytes(save_tensors(tensors, old))
    back = load(tmp_path / "old")
    assert back.predict(X).tobytes() == model.predict(X).tobytes()
    assert (back.gains, back.pearson_dispersion, back.band.concurvity, back.band.tests) == ((), None, (), {})
    assert back.band.widths == ()


def test_files_of_version_2_are_read(tmp_path):
    """Written before names changed: Walk and Mixed columns, predictors, strengths, freedom, solver block."""
    model = load(DATA / "version_2.ahofm")
    assert [book.kind.name for book in model.encoder.codebooks] == ["random_walk", "spline_iid", "spline_iid"]
    assert (model.trace.solver, model.order) == ("variational", 2)
    assert model.smoothing_parameters.keys() == {1, 2}
    assert model.trace.records[-1].fraction is not None
    assert model.band.edf[0][1].sum() == pytest.approx(7.111261282565059)
    rows = [[1.0, 4.0, 1.0], [1.0, 2.0, 0.0], [3.0, 3.0, 1.0], [4.0, 3.0, 2.0]]
    X = pd.DataFrame(rows, columns=["x0", "x1", "x2"])
    assert model.predict(X) == pytest.approx(PREDICTED, abs=1e-12)
    assert_same(round_trip(model, tmp_path), single(model))


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILY_SETTINGS, ids=repr)
def test_every_family_comes_back(family, tmp_path):
    model = small_model(family)
    back = round_trip(model, tmp_path)
    assert back.family == model.family
    assert type(back.family) is type(family)
    X = table(seed=2)[["spline", "text"]]
    assert back.predict(X).tobytes() == model.predict(X).tobytes()
    assert back.trace == model.trace
    assert list(back.smoothing_parameters) == list(model.smoothing_parameters)


@pytest.mark.parametrize(
    "classes",
    [
        ("no", "yes"),
        (0, 1),
        (0.5, 1.5),
        (False, True),
        ("1", 2),
        *(tuple(np.array([0, 1], dtype=name)) for name in ("int8", "int64", "longlong", "uint64", "float32", "bool")),
        (np.uint64(0), np.uint64(2**64 - 1)),
        tuple(np.array(["a", "bc"])),
    ],
    ids=lambda classes: f"{type(classes[0]).__name__}-{classes[1]}",
)
def test_labels_keep_their_type(classes, tmp_path):
    model = small_model(Bernoulli())
    model = replace(model, classes=classes)
    back = round_trip(model, tmp_path)
    assert back.classes == classes
    for ours, theirs in zip(back.classes, classes, strict=True):
        assert np.asarray(ours).dtype == np.asarray(theirs).dtype
        assert isinstance(ours, np.generic) == isinstance(theirs, np.generic)
    X = table()[["spline", "text"]]
    assert back.predict(X).dtype == model.predict(X).dtype
    np.testing.assert_array_equal(back.predict(X), model.predict(X))


def test_array_without_names(tmp_path):
    X = table()[["spline", "walk"]].to_numpy()
    model = fit(X, Gaussian(), order=1)
    back = round_trip(model, tmp_path)
    assert not back.encoder.named
    assert back.eta(X).tobytes() == model.eta(X).tobytes()


def test_text_that_is_not_unicode(tmp_path):
    X = np.array([["\ud800", "b"], ["a", "c"]] * (N // 2), dtype=object)
    assert_same(round_trip(model := fit(X, Gaussian(), order=1), tmp_path), model)


def test_trace_of_a_fit_that_diverged(tmp_path):
    model = small_model()
    records = (Record(0, 1.0, np.inf, 1, np.float64(0.5), None), Record(1, np.nan, -np.inf, 2.0, 0.7, 3.5))
    trace = replace(model.trace, records=records, reason=Reason.DIVERGED)
    back = round_trip(replace(model, trace=trace), tmp_path).trace
    np.testing.assert_equal(back.to_dict(), trace.to_dict())
    assert back.reason is Reason.DIVERGED


def test_equal_models_are_equal_files(tmp_path):
    save(rich_model(), tmp_path / "a")
    save(load(tmp_path / "a"), tmp_path / "b")
    save(rich_model(), str(tmp_path / "c"))
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes() == (tmp_path / "c").read_bytes()


def test_loaded_models_are_pickled_as_others(tmp_path):
    back = round_trip(small_model(), tmp_path)
    assert_same(pickle.loads(pickle.dumps(back)), back)


# ---- saving


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "model"
    save(small_model(), path)
    before = path.read_bytes()

    def fail(*_):
        raise OSError("disk full")

    for step in ("replace", "fsync"):
        with monkeypatch.context() as patch:
            patch.setattr(os, step, fail)
            with pytest.raises(OSError, match="disk full"):
                save(rich_model(), path)
        assert path.read_bytes() == before
        assert os.listdir(tmp_path) == ["model"]


def test_saving_replaces(tmp_path):
    save(small_model(), tmp_path / "model")
    save(rich_model(), tmp_path / "model")
    assert_same(load(tmp_path / "model"), rich_model())
    assert os.listdir(tmp_path) == ["model"]


def test_places_where_no_file_can_be(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no directory .*nowhere; create it"):
        save(small_model(), tmp_path / "nowhere" / "model")
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "nothing")
    with pytest.raises(OSError, match="directory"):
        save(small_model(), tmp_path)
    assert os.listdir(tmp_path) == []


@dataclass(frozen=True)
class Own(Gaussian):
    pass


@dataclass(frozen=True)
class Jumps(RandomWalk):
    pass


@pytest.mark.parametrize(
    ("model", "error", "message"),
    [
        (lambda: fit(table()[["spline"]], Own(), order=1), TypeError, "model.family is of type Own.*pickle"),
        (lambda: fit(table()[["walk"]], Gaussian(), order=1, columns=Jumps()), TypeError, "kind is of type Jumps"),
        (lambda: replace(small_model(Bernoulli()), classes=(1j, 2j)), TypeError, "classes.0 is of type complex"),
        (lambda: replace(small_model(Bernoulli()), classes=tuple(np.longdouble([0, 1]))), TypeError, "longdouble"),
        (lambda: replace(small_model(Bernoulli()), classes=("a",)), ValueError, "1 class labels"),
        (lambda: replace(small_model(), total=np.inf), ValueError, "model.total holds NaN or inf"),
        (lambda: replace(small_model(), smoothing_parameters={}), ValueError, "smoothing parameters"),
    ],
)
def test_what_no_file_holds(model, error, message, tmp_path):
    with pytest.raises(error, match=message):
        save(model(), tmp_path / "model")
    assert os.listdir(tmp_path) == []


# ---- loading what is not as it was saved


def as_stored(model):
    """Tensors, metadata and the model's JSON of a file; tensors are unpacked, which files may have too."""
    data = saved_bytes(model)
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    tree, tensors = separated(data)
    return tensors, {**header["__metadata__"], "model": json.dumps(tree)}, tree


def separated(data):
    """The model's JSON and its tensors, unpacked."""
    tree, tensors = separate("", load_tensors(data))
    return tree, unpack(tensors, equal_tensors(tree))


def opened(model):
    """The same with every tensor at its place, also those that are stored once, which files may have too."""
    tensors, metadata, tree = as_stored(model)
    restore(tree, tensors, np.inf)
    return tensors, {**metadata, "model": json.dumps(tree)}, tree


def opened_as_before_8(model):
    """The same, with records of the trace in the JSON."""
    tensors, metadata, tree = opened(model)
    tree["trace"]["records"] = json.loads(tensors.pop("model.trace.records").tobytes())
    return tensors, metadata, tree


@cache
def saved_bytes(model):
    with TemporaryDirectory() as folder:
        made = {"rich": rich_model, "plain": plain_model, "small": small_model, "shared": shared_model}[model]()
        save(made, path := Path(folder) / "model")
        return path.read_bytes()


def column(tree, name):
    return next(k for k, book in enumerate(tree["encoder"]["codebooks"]) if book["name"] == name)


def at(*path):
    """A change of the model's JSON: the last item is the new value; a str among codebooks is a column's name."""

    def change(tensors, metadata, tree):
        part = tree
        for key in path[:-2]:
            part = part[column(tree, key)] if isinstance(part, list) and isinstance(key, str) else part[key]
        part[path[-2]] = path[-1]

    return change


def book(name, *path):
    return at("encoder", "codebooks", name, *path)


def sealed(metadata, tensors):
    """With the right checksum, so that what it would hide is looked at."""
    return {**metadata, "sha256": _digest(metadata["model"], tensors)}


def metadata_at(key, value):
    return lambda tensors, metadata, tree: metadata.__setitem__(key, value)


def tensor(name, function, col=None):
    def change(tensors, metadata, tree):
        key = f"model.{name}" if col is None else f"model.encoder.codebooks.{column(tree, col)}.{name}"
        tensors[key] = np.ascontiguousarray(function(tensors[key]))

    return change


def drop(*path):
    def change(tensors, metadata, tree):
        part = tree
        for key in path[:-1]:
            part = part[key]
        del part[path[-1]]

    return change


def with_nan(array):
    array = array.copy()
    array.flat[0] = np.nan
    return array


def as_bytes(text):
    return lambda array: np.frombuffer(text, dtype=np.uint8)


DATA = Path(__file__).parent / "data"
PREDICTED = [1.5754996273882762, 0.26708484837293156, 2.6098464811255724, 3.292787786943594]

COEF = "linear_predictors.0.coef.0"
LOADINGS, NUMBERS = ("linear_predictors", 0, "loadings"), {"type": "numbers"}


def loadings_of(new):
    def change(tensors, metadata, tree):
        for order in tree["linear_predictors"][0]["loadings"]:
            del tensors[f"model.linear_predictors.0.loadings.{order}"]
        tree["linear_predictors"][0]["loadings"] = dict.fromkeys(new, NUMBERS)
        tensors |= {f"model.linear_predictors.0.loadings.{order}": array for order, array in new.items()}

    return change


CORRUPTIONS = {
    "another format": (metadata_at("format", "pt"), "not one of ahofm"),
    "newer": (metadata_at("version", str(VERSION + 1)), "written by a newer ahofm; upgrade"),
    "much newer": (metadata_at("version", "117"), "written by a newer ahofm; upgrade"),
    "no version": (metadata_at("version", "one"), "version is 'one'"),
    "version 0": (metadata_at("version", "0"), "version is '0'"),
    "odd digits": (metadata_at("version", "²"), "version is"),
    "invalid JSON": (metadata_at("model", "{"), "invalid JSON"),
    "deep JSON": (metadata_at("model", "[" * 100_000), "not an intact"),
    "JSON of something": (metadata_at("model", "[]"), "model should be Model"),
    "long number": (metadata_at("model", "9" * 5000), "not an intact"),
    "unknown type": (at("family", "type", "Own"), "model.family should be Family"),
    "importable type": (at("family", "type", "os.system"), "model.family should be Family"),
    "type of another place": (at("family", "type", "Spline"), "model.family should be Family"),
    "abstract type": (at("family", "type", "Family"), "model.family should be Family"),
    "type is a list": (at("family", "type", []), "unhashable"),
    "part is a number": (at("trace", 3), "model.trace should be Trace"),
    "missing field": (drop("encoder", "named"), "lacks, or should not have, named"),
    "missing type": (drop("encoder", "type"), "model.encoder should be Encoder"),
    "extra field": (at("trace", "more", 1), "lacks, or should not have, more"),
    "number as text": (at("total", "3"), "model.total should be float"),
    "infinite": (at("total", "inf"), "model.total should be float"),
    "NaN": (at("total", float("nan")), "model.total should be float"),
    "bool as number": (at("total", True), "model.total should be float"),
    "number as bool": (at("encoder", "named", 1), "named should be bool"),
    "None": (at("total", None), "model.total should be float"),
    "no weight": (at("total", 0.0), "no training weight"),
    "negative weight": (at("total", -1.0), "no training weight"),
    "unknown reason": (at("trace", "reason", "BORED"), "reason should be Reason"),
    "key no integer": (at(*LOADINGS, {"two": NUMBERS}), "invalid literal"),
    "key with a sign": (at(*LOADINGS, {"+2": NUMBERS}), "keys that are not integers"),
    "loadings of order 1": (loadings_of({"1": np.ones(3)}), "orders start at 2"),
    "loadings of none": (loadings_of({"3": np.ones(1), "2": np.ones(0)}), "ranks of at least 1"),
    "more loadings": (loadings_of({"2": np.ones(7), "3": np.ones(3)}), "expected"),
    "loadings of two dimensions": (loadings_of({"3": np.ones((1, 1)), "2": np.ones(2)}), "loadings have shapes"),
    "a loading that is NaN": (loadings_of({"3": np.ones(1), "2": np.array([np.nan, 1.0])}), "NaN or infinities"),
    "loadings in another order": (at(*LOADINGS, {"3": NUMBERS, "2": NUMBERS}), "differ in their ranks"),
    "no loadings": (at(*LOADINGS, {}), "expected"),
    "ranks of version 3": (at("ranks", {"2": 2, "3": 1}), "lacks, or should not have, ranks"),
    "functions at unseen levels": (at(*LOADINGS[:2], "neutral", [NUMBERS]), "neutral.0 is missing"),
    "bad family setting": (at("family", {"type": "Tweedie", "power": 3.0, "open": False}), "power must be"),
    "other family": (at("family", {"type": "Gaussian", "link": "identity"}), "linear predictor"),
    "more classes": (at("family", "n_classes", 10**12), "linear predictor"),
    "one class less": (at("classes", ["x", "y"]), "2 class labels"),
    "class is a list": (at("classes", [["x"], "y", "z"]), "classes.0 should be"),
    "class of unknown type": (at("classes", [{"type": "numpy.void", "value": 3}, "y", "z"]), "classes.0 should be"),
    "class too large": (at("classes", [{"type": "numpy.int8", "value": 300}, "y", "z"]), "not an intact"),
    "class overflows": (at("classes", [{"type": "numpy.float16", "value": 1e300}, "y", "z"]), "classes.0 should be"),
    "class of other type": (at("classes", [{"type": "numpy.int8", "value": "3"}, "y", "z"]), "classes.0 should be"),
    "class with more": (at("classes", [{"type": "numpy.int8", "value": 3, "x": 1}, "y", "z"]), "classes.0 should be"),
    "kind refuses": (book("spline", "kind", "degree", 0), "degree must be an integer of at least 1"),
    "kind with a huge number": (book("spline", "kind", "degree", 10**400), "not an intact"),
    "kind refuses outside": (book("walk", "kind", "outside", "none"), "outside should be"),
    "unsorted given knots": (book("knots", "kind", "knots", ["a"]), "knots.0 should be float"),
    "kind and basis differ": (
        book("walk", "kind", {"type": "Linear", "outside": "clamp", "max_codes": None}),
        "'walk'",
    ),
    "no kind": (book("walk", "kind", None), "'walk'"),
    "no edges": (book("walk", "edges", None), "'walk'|belong to nothing"),
    "low above high": (book("linear", "functions", "low", 7.0), "'linear'"),
    "support upside down": (book("walk", "support", "low", 99.0), "'walk'"),
    "no period": (book("cyclic", "functions", "period", 0.0), "'cyclic'"),
    "many functions": (book("cyclic", "functions", "size", 10**12), "expected"),
    "high degree": (book("cyclic", "functions", "degree", 10**12), "'cyclic'"),
    "negative degree": (book("cyclic", "functions", "degree", -1), "'cyclic'"),
    "spline of no degree": (book("spline", "functions", "degree", -3), "'spline'|expected"),
    "negative missing": (book("constant", "missing_mass", -1.0), "'constant'"),
    "missing appears": (book("cyclic", "missing_mass", 1.0), "expected"),
    "twice the same name": (book("walk", "name", "spline"), "two of the same name"),
    "levels for numbers": (book("walk", "edges", {"type": "levels"}), "edges is missing or of the wrong type"),
    "numbers for levels": (book("text", "support", "values", {"type": "numbers"}), "wrong type"),
    "array inline": (book("walk", "edges", [1.0, 2.0]), "edges is missing or of the wrong type"),
    "gaps that are none": (book("spline", "functions", "gaps", [[0.5, 0.25]]), "'spline'"),
    "gaps between other values": (book("spline", "functions", "gaps", [[0.0, 0.001]]), "'spline'"),
    "gaps of three ends": (book("spline", "functions", "gaps", [[0.0, 0.1, 0.2]]), "'spline'"),
    "no codebooks": (at("encoder", "codebooks", []), "coefficients for"),
    "fewer linear predictors": (lambda tensors, metadata, tree: tree["linear_predictors"].pop(), "linear predictor"),
    "missing tensor": (lambda tensors, metadata, tree: tensors.pop(f"model.{COEF}"), "coef.0 is missing"),
    "leftover tensor": (lambda tensors, metadata, tree: tensors.update(more=np.zeros(1)), "belong to nothing: more"),
    "single precision": (tensor(COEF, lambda a: a.astype(np.float32)), "coef.0 is missing or of the wrong type"),
    "integers": (tensor(COEF, lambda a: a.astype(np.int64)), "coef.0 is missing or of the wrong type"),
    "transposed": (tensor(COEF, np.transpose), "expected"),
    "flat": (tensor(COEF, np.ravel), "expected"),
    "NaN in coefficients": (tensor(COEF, with_nan), "coef.0 holds NaN"),
    "NaN in smoothing parameters": (tensor("smoothing_parameters.2", with_nan), "smoothing_parameters.2 holds NaN"),
    "negative smoothing parameter": (tensor("smoothing_parameters.2", lambda a: -a - 1.0), "smoothing parameters"),
    "short smoothing parameters": (tensor("smoothing_parameters.1", lambda a: a[1:]), "smoothing parameters"),
    "no smoothing parameters": (at("smoothing_parameters", {}), "belong to nothing"),
    "values unsorted": (tensor("support.values", lambda a: a[::-1], "spline"), "'spline'"),
    "values of two dimensions": (tensor("support.values", lambda a: a[:, np.newaxis], "spline"), "'spline'"),
    "values without dimension": (tensor("support.values", lambda a: a[0].reshape(()), "spline"), "not an intact"),
    "mass too short": (tensor("support.mass", lambda a: a[1:], "spline"), "'spline'"),
    "mass negative": (tensor("support.mass", lambda a: -a, "spline"), "'spline'"),
    "edges unsorted": (tensor("edges", lambda a: a[::-1], "walk"), "'walk'"),
    "edges too short": (tensor("edges", lambda a: a[1:], "walk"), "'walk'"),
    "knots unsorted": (tensor("functions.knots", lambda a: a[::-1], "spline"), "'spline'"),
    "knots elsewhere": (tensor("functions.knots", lambda a: a + 5.0, "spline"), "'spline'"),
    "walk elsewhere": (tensor("functions.knots", lambda a: a + 5.0, "walk"), "'walk'"),
    "levels swapped": (tensor("functions.levels", lambda a: a[::-1], "names"), "'names'"),
    "levels no JSON": (tensor("support.values", as_bytes(b"[1"), "text"), "invalid JSON"),
    "levels no UTF-8": (tensor("support.values", as_bytes(b'["\xff"]'), "text"), "not an intact"),
    "levels no list": (tensor("support.values", as_bytes(b"{}"), "text"), "not a list of texts"),
    "levels are numbers": (tensor("support.values", as_bytes(b"[1, 2]"), "text"), "not a list of texts"),
    "level twice": (tensor("support.values", as_bytes(b'["a", "a", "b", "c", "d"]'), "text"), "'text'"),
}


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_corruption_is_refused(name, tmp_path):
    corrupt, message = CORRUPTIONS[name]
    tensors, metadata, tree = opened("rich")
    untouched = metadata["model"]
    corrupt(tensors, metadata, tree)
    if metadata["model"] == untouched:
        metadata["model"] = json.dumps(tree)
    path = tmp_path / "model.safetensors"
    path.write_bytes(save_tensors(tensors, sealed(metadata, tensors)))
    with pytest.raises(ModelFileError, match=message) as caught:
        load(path)
    assert str(path) in str(caught.value)


def test_the_way_files_are_corrupted_here_is_sound(tmp_path):
    tensors, metadata, tree = opened("rich")
    metadata["model"] = json.dumps(tree, indent=1)
    path = tmp_path / "model.safetensors"
    path.write_bytes(save_tensors(tensors, sealed(metadata, tensors)))
    assert_same(load(path), rich_model())


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "no safetensors file"),
        (b"\x80\x04N.", "no safetensors file"),
        (pickle.dumps(print), "no safetensors file"),
        (b"PK\x03\x04" + bytes(100), "no safetensors file"),
        (b"\xff" * 64, "no safetensors file"),
        (save_tensors({"a": np.zeros(3)}), "not one of ahofm"),
        (save_tensors({"a": np.zeros(3)}, {"format": "pt"}), "not one of ahofm"),
        (save_tensors({"x": np.zeros(1)}, {"format": "ahofm"}), "version is ''"),
        (save_tensors({"x": np.zeros(1)}, {"format": "ahofm", "version": "1"}), "checksum"),
    ],
)
def test_other_files_are_refused(data, message, tmp_path):
    path = tmp_path / "other"
    path.write_bytes(data)
    with pytest.raises(ModelFileError, match=message):
        load(path)


@pytest.mark.parametrize("share", [0.0, 0.001, 0.3, 0.9, 0.9999])
def test_truncated_files_are_refused(share, tmp_path):
    data = saved_bytes("rich")
    path = tmp_path / "model"
    path.write_bytes(data[: int(share * len(data))])
    with pytest.raises(ModelFileError, match="damaged or no safetensors"):
        load(path)


def loads_soundly_or_not_at_all(data, path):
    path.write_bytes(data)
    try:
        model = load(path)
    except ModelFileError:
        return
    assert np.isfinite(model.linear_predictors[0].intercept)
    for k, codebook in enumerate(model.encoder.codebooks):
        assert model.linear_predictors[0].coef[k].shape[0] == codebook.size == codebook.basis.shape[1]
    save(model, path)  # which checks


def test_one_flipped_bit_in_a_coefficient_is_noticed(tmp_path):
    path = tmp_path / "model.safetensors"
    save(rich_model(), path)
    content = bytearray(path.read_bytes())
    content[-5] ^= 1
    path.write_bytes(content)
    with pytest.raises(ModelFileError, match="checksum"):
        load(path)


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_flipped_bytes(data, tmp_path_factory):
    content = bytearray(saved_bytes("small"))
    end = 8 + int.from_bytes(content[:8], "little")
    places = st.one_of(st.integers(0, end - 1), st.integers(0, len(content) - 1), st.integers(0, 15))
    for place, value in data.draw(st.lists(st.tuples(places, st.integers(1, 255)), min_size=1, max_size=4)):
        content[place] ^= value
    cut = data.draw(st.one_of(st.just(len(content)), st.integers(0, len(content))))
    loads_soundly_or_not_at_all(bytes(content[:cut]), tmp_path_factory.getbasetemp() / "flipped")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5) | st.just("type"), inner, max_size=3)
    ),
    max_leaves=5,
)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_any_json_anywhere(data, tmp_path_factory):
    tensors, metadata, tree = data.draw(st.sampled_from([opened, as_stored]))("rich")
    part = data.draw(st.sampled_from([tree, tree.get("stored_once", tree)]))
    while True:
        key = data.draw(st.sampled_from(list(part) if isinstance(part, dict) else range(len(part))))
        if not isinstance(part[key], (dict, list)) or not part[key] or data.draw(st.integers(0, 5)) == 0:
            break
        part = part[key]
    part[key] = data.draw(JSON)
    metadata["model"] = json.dumps(tree)
    loads_soundly_or_not_at_all(
        save_tensors(tensors, sealed(metadata, tensors)), tmp_path_factory.getbasetemp() / "replaced"
    )


def test_files_of_the_first_version_are_read(tmp_path):
    """They lack what later versions brought."""
    tensors, metadata, tree = opened_as_before_8("plain")
    without_loadings(tree, tensors)
    assert tree.pop("missing") == []
    metadata |= {"version": "1", "model": json.dumps(tree)}
    path = tmp_path / "old.ahofm"
    path.write_bytes(save_tensors(tensors, sealed(metadata, tensors)))
    assert load(path).missing == ()
    metadata["version"] = "2"
    path.write_bytes(save_tensors(tensors, sealed(metadata, tensors)))
    with pytest.raises(ModelFileError, match="lacks, or should not have, missing"):
        load(path)


@pytest.mark.parametrize(
    ("ranks", "message"),
    [
        (None, "should have ranks"),
        ([2], "should have ranks"),
        ({"2": 2}, "other ranks"),
        ({"2": 10**30}, "other ranks"),
        ({"2": "6", "3": 3}, "unsupported operand"),
        ({"2": -1, "3": 10}, "negative dimensions"),
        ({"two": 6, "3": 3}, "invalid literal"),
        ({"1": 6, "3": 3}, "orders start at 2"),
    ],
    ids=str,
)
def test_damaged_ranks_of_version_3(tmp_path, ranks, message):
    tensors, metadata, tree = opened_as_before_8("plain")
    without_loadings(tree, tensors)
    tree["ranks"] = ranks
    metadata |= {"version": "3", "model": json.dumps(tree)}
    path = tmp_path / "old.ahofm"
    path.write_bytes(save_tensors(tensors, sealed(metadata, tensors)))
    with pytest.raises(ModelFileError, match=message):
        load(path)


def test_loadings_come_back(tmp_path):
    model = small_model()
    predictor = model.linear_predictors[0]
    signed = replace(predictor, loadings={order: -own - 0.5 for order, own in predictor.loadings.items()})
    loaded = replace(model, linear_predictors=(signed,))
    back = round_trip(loaded, tmp_path)
    assert_same(back, loaded)
    assert all((own < 0.0).all() for own in back.linear_predictors[0].loadings.values())
    assert back.ranks == model.ranks != {}
    assert back.eta(table()[["spline", "text"]]).tobytes() == loaded.eta(table()[["spline", "text"]]).tobytes()


def test_cells_that_mean_missing_are_kept(tmp_path):
    path = tmp_path / "model.ahofm"
    replace(rich_model(), missing=("?", "-9")).save(path)
    assert load(path).missing == ("?", "-9")

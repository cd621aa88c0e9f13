"""Pipelines through skl2onnx, terms in ONNX, files of scorers, and where fitted estimators live."""

import io
import re
import subprocess
import sys
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import ahofm
from ahofm import AHOFMClassifier, AHOFMRegressor, Categorical
from ahofm.explain import contributions, shapley_values
from ahofm.export import register_skl2onnx, to_c, to_javascript, to_onnx, to_python
from ahofm.export.description import describe
from ahofm.orders import PRODUCT
from tests.explain.models import random_model
from tests.export.models import MAKERS, hard_rows
from tests.export.targets import TARGETS, feeds
from tests.golden.models import kept, rows_of

pytestmark = pytest.mark.slow

ONE = {"order": 2, "factor_prior": "spline", "n_members": 1, "random_state": 0}


def session_of(graph):
    runtime = pytest.importorskip("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1
    return runtime.InferenceSession(graph.SerializeToString(), options, providers=["CPUExecutionProvider"])


@pytest.mark.parametrize("classes", [0, 2, 3])
def test_pipelines_are_converted(classes):
    skl2onnx = pytest.importorskip("skl2onnx")
    register_skl2onnx()
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    y = X[:, 0] * X[:, 1] + (1.0 if classes else 0.1) * rng.normal(size=300)
    if classes:
        y = np.array(["a", "b", "c"])[np.digitize(y, [0.0, 0.5][: classes - 1])]
    estimator = AHOFMClassifier(**ONE) if classes else AHOFMRegressor(**ONE)
    pipeline = make_pipeline(StandardScaler(), estimator).fit(X, y)
    graph = skl2onnx.to_onnx(pipeline, X[:1])
    new = np.vstack([rng.normal(size=(50, 3)), [[30.0, -30.0, 0.0]]])
    found = session_of(graph).run(None, {"X": new})
    if not classes:
        np.testing.assert_allclose(found[0][:, 0], pipeline.predict(new), rtol=1e-9)
        return
    assert found[0].tolist() == pipeline.predict(new).tolist()
    np.testing.assert_allclose(found[1], pipeline.predict_proba(new), rtol=1e-9)


def test_a_pipeline_with_text_has_an_input_for_each_column(fitted):
    skl2onnx = pytest.importorskip("skl2onnx")
    types = skl2onnx.common.data_types
    register_skl2onnx()
    model, X = fitted("counts"), hard_rows()
    number, text = types.DoubleTensorType([None, 1]), types.StringTensorType([None, 1])
    kinds = [number if pd.api.types.is_numeric_dtype(X[name]) else text for name in X]
    plain = [(f"input_{at}", kind) for at, kind in enumerate(kinds)]  # names that skl2onnx leaves as they are
    graph = skl2onnx.to_onnx(model, initial_types=plain)
    given = dict(zip([name for name, _ in plain], feeds(X).values(), strict=True))
    (found,) = session_of(graph).run(None, given)
    np.testing.assert_allclose(found[:, 0], model.predict(X), rtol=1e-9)


@pytest.mark.parametrize(
    "name", ["order_1", "order_2", "order_3", "products", "three_classes", "three_classes_products"]
)
def test_terms_in_onnx_equal_contributions(fitted, name):
    model, X = fitted(name), hard_rows()
    session = session_of(to_onnx(model, contributions="terms"))
    found = dict(zip([own.name for own in session.get_outputs()], session.run(None, feeds(X)), strict=True))
    labels = [None] if model.model_.family.n_eta == 1 else model.model_.classes
    named = eval(session.get_modelmeta().custom_metadata_map["terms"])
    bases = eval(session.get_modelmeta().custom_metadata_map["bases"])
    for k, label in enumerate(labels):
        expected = contributions(model, X, linear_predictor=label)
        assert bases[k] == pytest.approx(expected.intercept)
        size = max(1.0, np.abs(expected.values).max())
        for at, term in enumerate(named):
            own = expected.values[:, expected.terms.index(tuple(term))]
            np.testing.assert_allclose(found["contributions"][:, k, at], own, rtol=1e-6, atol=1e-10 * size)


TRANSLATED = {"Abs", "Add", "ArgMax", "Cast", "Concat", "Div", "Identity", "LabelEncoder", "MatMul", "Mul"}
TRANSLATED |= {"ReduceSum", "Softmax", "Sub", "Where"}
LACKING = {"Equal", "Exp", "Gather", "Greater", "GreaterOrEqual", "IsNaN", "Less", "Max", "Mod", "Neg", "Not", "Slice"}
LACKING |= {"Squeeze", "Unsqueeze"}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:1 constant column")
def test_operators_are_those_that_the_page_names(fitted):
    """What orbital translates, and what not: docs/export/onnx.md."""
    graphs = [to_onnx(fitted(name), contributions="columns") for name in MAKERS]
    empty = AHOFMRegressor(order=1, columns={"a": Categorical()}, random_state=0)
    graphs.append(to_onnx(empty.fit(pd.DataFrame({"a": [np.nan] * 40, "b": np.arange(40.0)}), np.arange(40.0))))
    assert {node.op_type for graph in graphs for node in graph.graph.node} == TRANSLATED | LACKING
    page = (Path(__file__).parents[2] / "docs/export/onnx.md").read_text()
    for part, names in zip(page.split("`orbital` 0.6")[1].split("It lacks")[:2], (TRANSLATED, LACKING), strict=True):
        assert names <= set(re.findall(r"`(\w+)`", part))


def test_curves_that_classes_share_are_there_once(fitted):
    model = fitted("three_classes").model_
    factors = sum(model.ranks.values())
    assert factors > 0
    assert sum(group.rank for group in describe(model).groups) == factors  # and not three times as many


@pytest.mark.parametrize("centred", [True, False])
@pytest.mark.parametrize("target", ["python", "sqlite", "duckdb", "onnx", "c", "node"])
def test_random_models_with_loadings_of_any_sign(target, centred, tmp_path):
    """Whose linear predictors have other loadings, and products with constants of zero."""
    model = random_model(5, {2: 2, 4: 1, PRODUCT: 2}, centred=centred)
    X = pd.DataFrame({book.name: book.support.values[[0, 1, 2, 1]] for book in model.encoder.codebooks})

    class Fitted:
        model_ = model

    means, parts = TARGETS[target](Fitted(), X, None, tmp_path)
    expected = shapley_values(model, X).values
    np.testing.assert_allclose(means[:, 0], model.predict(X), rtol=1e-9)
    np.testing.assert_allclose(parts[:, 0], expected, rtol=1e-6, atol=1e-10 * np.abs(expected).max())


@pytest.mark.parametrize(("write", "data"), [(to_python, "MODEL|NUMBERS"), (to_javascript, "const (model|own) =")])
def test_scorers_are_short(fitted, write, data):
    lines = [line for line in write(fitted("order_4")).splitlines() if not re.match(data, line)]
    assert len(lines) < 300
    assert all(len(line) < 200 for line in lines)


def test_the_header_is_short_and_allocates_nothing(fitted):
    text = to_c(fitted("order_4"))
    code = re.sub(r"static const (double|char|ahofm_column|ahofm_group)[^;]*;", "", text)
    assert len(code.splitlines()) < 300
    assert not re.search(r"\b(m|c|re)alloc\b|\bfree\(", text)


def test_the_scorer_needs_numpy_only(fitted, tmp_path):
    (tmp_path / "scorer.py").write_text(to_python(fitted("counts")), encoding="utf-8")
    heavy = "{'ahofm', 'scipy', 'pandas'}"
    run = f"import sys, scorer; print(sorted({{name.partition('.')[0] for name in sys.modules}} & {heavy}))"
    done = subprocess.run(
        [sys.executable, "-c", run], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("name", MAKERS)
def test_joblib_keeps_predictions(fitted, name):
    model, file = fitted(name), io.BytesIO()
    joblib.dump(model, file)
    file.seek(0)
    assert (joblib.load(file).predict(hard_rows()) == model.predict(hard_rows())).all()


@pytest.mark.parametrize("name", ["order_2", "products", "three_classes", "counts"])
def test_skops_keeps_predictions(fitted, name, tmp_path):
    skops = pytest.importorskip("skops.io")
    model = fitted(name)
    skops.dump(model, tmp_path / "model.skops")
    unknown = skops.get_untrusted_types(file=tmp_path / "model.skops")
    assert all(kind.startswith("ahofm.") for kind in unknown)
    again = skops.load(tmp_path / "model.skops", trusted=unknown)
    assert (again.predict(hard_rows()) == model.predict(hard_rows())).all()
    assert model.training_ is not None
    assert again.training_ is None


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_mlflow_keeps_predictions(fitted, tmp_path, monkeypatch):
    sklearn = pytest.importorskip("mlflow.sklearn", reason="needs MLflow: pip install mlflow-skinny")
    monkeypatch.chdir(tmp_path)
    model = fitted("counts")
    sklearn.save_model(model, str(tmp_path / "model"), pip_requirements=["ahofm"], serialization_format="cloudpickle")
    again = sklearn.load_model(str(tmp_path / "model"))
    assert (again.predict(hard_rows()) == model.predict(hard_rows())).all()


@pytest.mark.parametrize("path", kept(), ids=lambda path: path.stem)
def test_files_of_every_version_are_exported(path):
    X, eta = rows_of(path)
    scorer = {}
    exec(to_python(ahofm.load(path)), scorer)
    np.testing.assert_allclose(scorer["linear_predictors"](X)[:, 0], eta, rtol=1e-9)


@pytest.mark.parametrize("name", MAKERS)
def test_files_without_bands_are_small(fitted, name, tmp_path):
    fitted(name).save(tmp_path / "model.ahofm", uncertainty=False)
    assert (tmp_path / "model.ahofm").stat().st_size < 300_000

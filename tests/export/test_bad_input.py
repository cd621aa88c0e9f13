"""What exports refuse before anything is written, and what looks hard but comes out right."""

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import pytest

from ahofm import AHOFMClassifier, AHOFMRegressor
from ahofm.columns.kind import NumericKind
from ahofm.columns.linear import LinearBasis
from ahofm.export import rating_tables, to_c, to_javascript, to_onnx, to_python, to_sql
from ahofm.export.means import Mean, mean_of
from ahofm.families import (
    Gamma,
    Gaussian,
    GaussianLocationScale,
    LogNormal,
    NegativeBinomial,
    Ordinal,
    Poisson,
    Quantile,
    Weibull,
    ZeroInflatedPoisson,
)
from ahofm.families.family import Family
from tests.contracts.test_families import FAMILIES_UNDER_TEST
from tests.explain.models import random_model
from tests.export.models import hard_rows
from tests.export.targets import TARGETS

WRITERS = [to_python, to_c, to_javascript, to_onnx, to_sql]


@dataclass(frozen=True)
class Probit(Gaussian):
    """A mean that no export knows."""

    def mean(self, eta):
        return np.tanh(eta[:, 0])


@dataclass(frozen=True)
class Exponential(Gaussian):
    """A family of a user's own with a mean that exports know."""

    def mean(self, eta):
        return np.exp(eta[:, 0])


@pytest.mark.parametrize("write", WRITERS)
def test_a_mean_of_a_users_own_is_refused(write):
    model = replace(random_model(1, {2: 1}), family=Probit())
    with pytest.raises(TypeError, match=r"the mean of Probit\(.*cannot be exported"):
        write(model)


@pytest.mark.parametrize(
    ("family", "mean"),
    [
        (Exponential(), Mean("log")),
        (Gaussian(), Mean("identity")),
        (Gamma(link="inverse"), Mean("inverse")),
        (Poisson(), Mean("log")),
        (NegativeBinomial(size=2.0), Mean("log")),
        (Quantile(0.3), Mean("identity")),
        (GaussianLocationScale(), Mean("identity")),
        (LogNormal(scale=2.0), Mean("log")),
        (Weibull(scale=2.0), Mean("log", shift=pytest.approx(2.0 * np.log(np.log(2.0))))),
        (Ordinal(thresholds=(-1.0, 2.0), low=3), Mean("levels", thresholds=(-1.0, 2.0), low=3)),
        (ZeroInflatedPoisson(), Mean("zero_inflated")),
    ],
    ids=str,
)
def test_means_are_found(family, mean):
    assert isinstance(family, Family)
    assert mean_of(family) == mean


@pytest.mark.parametrize("family", [family for family, _ in FAMILIES_UNDER_TEST], ids=str)
def test_all_families_are_exported(family):
    assert mean_of(family)


@dataclass(frozen=True)
class Rounded(Ordinal):
    """Levels with a mean of a user's own."""

    def mean(self, eta):
        return np.round(super().mean(eta))


def test_levels_with_another_mean_are_refused():
    with pytest.raises(TypeError, match=r"the mean of Rounded\(.*cannot be exported"):
        mean_of(Rounded(thresholds=(-1.0, 2.0)))


@dataclass(frozen=True)
class Coded(NumericKind):
    """A kind of a user's own whose functions are those of codes."""

    max_codes: int | None = 5

    def learn(self, support):
        return CodedBasis(support.low, support.high, "clamp")


class CodedBasis(LinearBasis):
    """A line at the codes, constant between them."""

    def pieces(self):
        return None


def frame_rows(X, target, model, tmp_path):
    means, _ = TARGETS[target](model, X, None, tmp_path)
    np.testing.assert_allclose(means[:, 0], model.predict(X), rtol=1e-9)


@pytest.mark.parametrize("target", ["python", "sqlite", "onnx", "c"])
def test_a_kind_of_a_users_own_is_right(target, tmp_path):
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.normal(size=100), "b": rng.normal(size=100)})
    settings = {"order": 1, "factor_prior": "spline", "n_members": 1, "random_state": 0}
    model = AHOFMRegressor(columns={"a": Coded()}, **settings).fit(X, X["a"] + X["b"] ** 2)
    assert len(np.unique(model.predict(X.assign(b=0.0)))) == 5
    frame_rows(X, target, model, tmp_path)


@pytest.fixture(scope="module")
def many_levels():
    rng = np.random.default_rng(0)
    levels = np.array([f"level {k} '\"" for k in range(5000)])
    X = pd.DataFrame({"order": rng.permutation(np.repeat(levels, 2)), "b": rng.normal(size=10_000)})
    y = X["b"] + X["order"].str.len() % 3 + 0.1 * rng.normal(size=10_000)
    return X, AHOFMRegressor(order=1, factor_prior="spline", n_members=1, random_state=0).fit(X, y)


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_five_thousand_levels(many_levels, target, tmp_path):
    X, model = many_levels
    statement = to_sql(model)
    assert "'level 4999 ''\"'" in statement
    assert statement.count("CASE WHEN") < 300  # those of the bins of b: levels are a join
    few = X[:40].copy()
    few.loc[0, "order"] = "level 5000"
    frame_rows(few, target, model, tmp_path)


def test_names_that_a_database_cuts_are_refused():
    name = "a" * 60
    X = pd.DataFrame({name: np.arange(50.0), "b": np.arange(50.0) % 7})
    model = AHOFMRegressor(order=1, factor_prior="spline", n_members=1, random_state=0).fit(X, X["b"])
    with pytest.raises(ValueError, match="postgres has names of up to 63 bytes, and 'contribution aaa"):
        to_sql(model, contributions=True)
    assert to_sql(model, contributions=True, dialect="duckdb")


def test_statements_that_cannot_be_are_refused(fitted):
    model = fitted("three_classes")
    with pytest.raises(ValueError, match="two columns named 'prediction'"):
        to_sql(fitted("order_1"), keep=["prediction"])
    with pytest.raises(ValueError, match="several classes"):
        to_sql(model, offset="shift")
    with pytest.raises(ValueError, match=r"dialect='postgre' is none of postgres, .*; did you mean 'postgres'"):
        to_sql(model, dialect="postgre")
    with pytest.raises(ValueError, match=r"dialect='oracle' is none of .*; export to ONNX or C instead"):
        to_sql(model, dialect="oracle")
    with pytest.raises(ValueError, match="cannot be the name"):
        to_sql(model, table="")
    wide = random_model(3, {2: 560}, n_columns=2)
    with pytest.raises(ValueError, match=r"postgres has up to 1600 columns in a .*: export it to duckdb"):
        to_sql(wide, dialect="postgres")
    assert to_sql(wide, dialect="duckdb")


def test_graphs_that_cannot_be_are_refused(fitted):
    with pytest.raises(ValueError, match="contributions must be None, 'columns' or 'terms', got 'all'"):
        to_onnx(fitted("order_1"), contributions="all")
    with pytest.raises(ValueError, match=r"column 'season' has the level '-', which would mean missing"):
        to_onnx(fitted("order_1"), missing="-")
    with pytest.raises(ValueError, match="opset must be 17 or later, got 9"):
        to_onnx(fitted("order_1"), opset=9)
    with pytest.raises(ValueError, match="contributions='columns' has one number per column"):
        to_onnx(random_model(1, {3: 1}, n_columns=20), contributions="terms")


def test_a_nul_ends_a_text_in_c():
    X = pd.DataFrame({"a": ["x", "y\0z"] * 20, "b": np.arange(40.0)})
    model = AHOFMRegressor(order=1, factor_prior="spline", n_members=1, random_state=0).fit(X, X["b"])
    with pytest.raises(ValueError, match="has a NUL, which ends a text in C"):
        to_c(model)
    with pytest.raises(ValueError, match="has a NUL, which SQL cannot hold"):
        to_sql(model)


@pytest.mark.parametrize("write", [*WRITERS, rating_tables])
def test_an_estimator_has_to_be_fitted(write):
    with pytest.raises(TypeError, match="call fit first"):
        write(AHOFMClassifier())


def test_infinite_numbers_are_refused_as_predict_does(fitted):
    scorer = {}
    exec(to_python(fitted("order_1")), scorer)
    with pytest.raises(ValueError, match="column 'wind' is infinite in row 2"):
        scorer["predict"](hard_rows().assign(wind=[1.0, 2.0, np.inf, *([0.0] * 57)]))

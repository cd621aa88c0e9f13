"""Statements for every dialect: sqlglot reads them back with the same names, texts and functions that it knows."""

import numpy as np
import pandas as pd
import pytest

from ahofm import AHOFMRegressor
from ahofm.export import to_sql
from ahofm.export.sql_dialects import DIALECTS
from tests.explain.models import random_model
from tests.export.targets import TARGETS

pytestmark = pytest.mark.slow

RUN = ("sqlite", "duckdb", "postgres", "mysql")
"""Dialects whose statements are run against ``predict`` by the matrix."""

ONE = {"factor_prior": "spline", "n_members": 1, "random_state": 0}
LEVELS = ["a", "A", "a ", "b\\c", "it's", 'say "x"', "ä`€]", "two\nlines", "--", "{x}"]


@pytest.fixture(scope="module")
def model():
    """Text that is hard to quote, in levels and names; levels that differ in capitals and blanks only."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"select": rng.choice(LEVELS, 300).astype(object), "b`]\"'\\{c}": rng.normal(size=300)})
    y = X["select"].map({level: k for k, level in enumerate(LEVELS)}).to_numpy() + X.iloc[:, 1].to_numpy() ** 2
    return X, AHOFMRegressor(order=1, **ONE).fit(X, y)


@pytest.mark.parametrize("target", RUN)
def test_capitals_blanks_and_quotes_count(model, target, tmp_path):
    X, fitted = model
    few = pd.concat([X[:40], X[:3].assign(select=["B", "b", "A "])], ignore_index=True)  # the last three are unseen
    means, _ = TARGETS[target](fitted, few, None, tmp_path)
    np.testing.assert_allclose(means[:, 0], fitted.predict(few), rtol=1e-9)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_statements_are_read_back(model, dialect):
    sqlglot = pytest.importorskip("sqlglot")
    X, own = model
    levels = set(LEVELS)
    if dialect == "redshift":
        with pytest.raises(ValueError, match="column 'select' has levels that differ in blanks at their ends only"):
            to_sql(own, dialect=dialect)
        own, levels = AHOFMRegressor(order=1, **ONE).fit(X.replace({"a ": "a"}), X.iloc[:, 1]), levels - {"a "}
    statement = to_sql(own, table=["the s", "rows"], dialect=dialect, contributions=True)
    tree = sqlglot.parse_one(statement, read=dialect)
    exp = sqlglot.exp
    texts = {own.name for own in tree.find_all(exp.Literal, exp.National)}
    assert levels <= texts
    (source,) = [table for table in tree.find_all(exp.Table) if table.name == "rows"]
    assert source.db == "the s"
    assert set(X) <= {column.name for column in tree.find_all(exp.Column)}
    assert tree.named_selects[-2:] == [DIALECTS[dialect].shown_name(f"contribution {name}") for name in X]


FUNCTIONS = {"Abs", "Case", "Cast", "Coalesce", "Exp", "Floor", "If", "Ln", "TryCast"}
"""Of every dialect, as sqlglot names them: branches of CASE are If, and Spark's CAST is TryCast."""

OWN_FUNCTIONS = {
    **{key: {"Greatest", "Nullif"} for key in ["postgres", "duckdb", "spark", "databricks", "snowflake", "redshift"]},
    **{key: {"Greatest"} for key in ["sqlite", "mysql"]},  # MAX of several numbers in SQLite; neither has NaN
    **{key: {"Greatest", "IsNan"} for key in ["trino", "athena", "clickhouse"]},
    "bigquery": {"Greatest", "IsNan", "Array", "Unnest"},
    "tsql": {"Max"},  # GREATEST came with SQL Server 2022
}


@pytest.mark.slow
@pytest.mark.parametrize("dialect", DIALECTS)
def test_only_functions_that_the_database_has(fitted, dialect):
    sqlglot = pytest.importorskip("sqlglot")
    called = set()
    for name, given in {"three_classes": {}, "counts": {"exposure": "years"}, "levels": {}}.items():
        statement = to_sql(fitted(name), dialect=dialect, **given)
        tree = sqlglot.parse_one(statement, read=dialect)
        called |= {type(own).__name__ for own in tree.find_all(sqlglot.exp.Func)}
        assert ("'NaN'" in statement) == ("Nullif" in OWN_FUNCTIONS[dialect])
    assert called - FUNCTIONS == OWN_FUNCTIONS[dialect]
    assert {"Exp", "Ln", "Floor"} <= called


def test_statements_that_are_too_long_are_refused():
    wide = random_model(3, {2: 200}, n_columns=3)
    with pytest.raises(ValueError, match=r"the statement has \d+ bytes, and athena takes 262144: fit with fewer"):
        to_sql(wide, dialect="athena")
    assert to_sql(wide, dialect="trino")


def test_bigquery_has_no_parentheses_in_names(fitted):
    statement = to_sql(fitted("three_classes"), dialect="bigquery", contributions=True, keep=["id"])
    assert "`contribution wind _10_`" in statement
    with pytest.raises(ValueError, match=r"two columns named 'a_b'"):
        to_sql(fitted("three_classes"), dialect="bigquery", keep=["a.b", "a,b"])

"""Rating tables: predictions are products of their entries, exposures add up, files hold what the tables hold."""

import csv
import zipfile

import numpy as np
import pandas as pd
import pytest

from ahofm import AHOFMRegressor
from ahofm.export import rating_tables

NAMES = ["age", "=type", "region/old"]


def claims(n=600):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        {
            "age": rng.integers(18, 30, n).astype(float),
            "=type": rng.choice(["-a", "b", "c"], n).astype(object),
            "region/old": rng.choice(["n", "s"], n),
        }
    )
    X.loc[rng.random(n) < 0.1, "=type"] = None
    exposure = rng.uniform(0.2, 1.0, n)
    rate = np.exp(0.05 * (X["age"] - 24) * (X["region/old"] == "n") + 0.5 * (X["=type"] == "b"))
    return X, rng.poisson(2 * exposure * rate).astype(float), exposure


@pytest.fixture(scope="module")
def model():
    X, y, exposure = claims()
    settings = {"order": 2, "family": "poisson", "factor_prior": "spline", "n_members": 1, "random_state": 0}
    return AHOFMRegressor(**settings).fit(X, y, offset=np.log(exposure))


def test_predictions_are_products(model):
    X, _, _ = claims()
    found = rating_tables(model, pairs=[(a, b) for at, a in enumerate(NAMES) for b in NAMES[at + 1 :]])
    assert found.scale == "relativity"
    expected = np.full(len(X), found.base_mean)
    for table in found.tables:
        entry = dict(zip(table.keys, table.relative, strict=True))
        keys = [
            tuple("missing" if pd.isna(v) else f"{v:.10g}" if isinstance(v, float) else v for v in row)
            for row in X[list(table.columns)].to_numpy(dtype=object).tolist()
        ]
        expected *= [entry[key] for key in keys]
        assert entry[table.base] == pytest.approx(1.0)
    np.testing.assert_allclose(expected, model.predict(X), rtol=1e-9)


def test_exposure_observed_and_fitted(model):
    X, y, exposure = claims()
    found = rating_tables(model, pairs=1)
    for table in found.tables:
        assert table.exposure.sum() == pytest.approx(exposure.sum())
        there = table.exposure > 0
        assert (table.observed * table.exposure)[there].sum() == pytest.approx(y.sum())
    kind = found.tables[1]
    at = kind.keys.index(("b",))
    rows = (X["=type"] == "b").to_numpy()
    assert kind.exposure[at] == pytest.approx(exposure[rows].sum())
    assert kind.observed[at] == pytest.approx(y[rows].sum() / exposure[rows].sum())
    mean = model.predict(X, offset=np.log(exposure))
    assert kind.fitted[at] == pytest.approx(mean[rows].sum() / exposure[rows].sum())
    alone = rating_tables(model.model_, X[rows], y[rows], offset=np.log(exposure[rows]), base={"=type": "c", "age": 20})
    assert alone.tables[1].exposure[at] == pytest.approx(exposure[rows].sum())
    assert [table.base[0] for table in alone.tables[:2]] == ["20", "c"]


def test_many_numbers_are_bands():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.normal(size=500), "b": rng.normal(size=500)})
    model = AHOFMRegressor(order=1, factor_prior="spline", n_members=1, random_state=0).fit(X, X["a"] ** 2)
    found = rating_tables(model, max_bands=8)
    assert found.scale == "difference"
    assert [len(table.keys) for table in found.tables] == [8, 8]
    assert found.tables[0].exposure.sum() == 500
    assert np.ptp(found.tables[0].exposure) < 20
    assert found.tables[0].base == found.tables[0].keys[3]  # that of the median
    assert all(len(key) < 24 for (key,) in found.tables[0].keys)
    low, high = (float(end) for end in found.tables[0].keys[0][0].split(" to "))
    assert low < found.tables[0].values[0][0] < high
    nothing = rating_tables(model.model_, max_bands=8)
    assert nothing.tables[0].observed is None
    assert nothing.tables[0].exposure.sum() == 500


def sheet_rows(sheet):
    """Values below the first row."""
    return [tuple(cell.value for cell in row) for row in sheet.iter_rows(min_row=2)]


def test_files_hold_the_tables(model, tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    found = rating_tables(model, pairs=1)
    found.to_csv(tmp_path / "tables.csv")
    with (tmp_path / "tables.csv").open(encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    assert float(lines[0]["relativity"]) == found.base_mean
    ages = [float(line["relativity"]) for line in lines if line["column"] == "age" and not line["second column"]]
    assert ages == found.tables[0].relative.tolist()
    found.to_excel(tmp_path / "tables.xlsx")
    book = openpyxl.load_workbook(tmp_path / "tables.xlsx")
    assert book.sheetnames[:4] == ["base", "age", "=type", "region_old"]
    front = {row[0].value: row[1].value for row in book["base"].iter_rows(max_row=8) if row[0].value}
    _, y, exposure = claims()
    assert front["prediction at the base levels"] == pytest.approx(found.base_mean)
    assert front["exposure"] == pytest.approx(exposure.sum())
    assert front["observed mean"] == pytest.approx(y.sum() / exposure.sum())
    age, first = found.tables[0], sheet_rows(book["age"])
    assert [cell.value for cell in book["age"][1]] == [
        "age",
        "exposure",
        "share",
        "observed",
        "fitted",
        "observed / fitted",
        "relativity",
    ]
    assert [row[0] for row in first[: len(age.keys)]] == [float(key) for (key,) in age.keys]  # numbers, not text
    assert [row[6] for row in first[: len(age.keys)]] == pytest.approx(age.relative.tolist())
    assert first[len(age.keys)][:3] == ("all", pytest.approx(exposure.sum()), pytest.approx(1.0))
    assert book["age"]["G2"].number_format == "0.000"
    assert len(book["age"]._charts) == 1
    marked = [row[0].value for row in book["age"].iter_rows(min_row=2) if row[0].fill.fgColor.rgb == "00FFF2CC"]
    assert marked == [float(age.base[0])]
    odd = book["=type"]["A2"]
    assert (odd.value, odd.data_type, odd.quotePrefix) == ("-a", "s", True)  # text, not a formula
    assert book["=type"]["A1"].data_type == "s"
    pair = found.tables[-1]
    grid = sheet_rows(book[book.sheetnames[4]])
    assert grid[1][1] == pytest.approx(pair.relative[0])
    with zipfile.ZipFile(tmp_path / "tables.xlsx") as file:
        assert not any(b"<f>" in file.read(name) for name in file.namelist() if "worksheets" in name)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["tables.csv", "tables.xlsx"]


def test_what_is_refused(model, fitted):
    with pytest.raises(ValueError, match="rating tables are of one linear predictor, and the model has 3"):
        rating_tables(fitted("three_classes"))
    with pytest.raises(ValueError, match=r"column '=type' has no level 'x'; it has -a, b, c"):
        rating_tables(model, base={"=type": "x"})
    with pytest.raises(ValueError, match="X without y"):
        rating_tables(model, claims()[0])
    with pytest.raises(ValueError, match="pairs must be pairs of different columns"):
        rating_tables(model, pairs=[("age", "age")])
    with pytest.raises(ValueError, match="pairs must be a number of at least 0"):
        rating_tables(model, pairs=-1)


def test_a_pair_without_an_interaction_changes_nothing():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.integers(0, 4, 200), "b": rng.integers(0, 3, 200)})
    model = AHOFMRegressor(order=1, factor_prior="spline", n_members=1, random_state=0).fit(X, X["a"] + X["b"] ** 2)
    pair = rating_tables(model, pairs=[("a", "b")]).tables[-1]
    assert np.abs(pair.relative).max() < 1e-12
    assert pair.exposure.sum() == 200

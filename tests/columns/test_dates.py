"""Columns of dates: what they become, and that predictions see the same."""

import datetime
import json

import numpy as np
import pandas as pd
import polars as pl
import pytest

import ahofm
from ahofm import AHOFMRegressor, Date, Linear
from ahofm.columns.table import read_table

QUICK = {"random_state": 0, "n_jobs": 1, "n_members": 1, "effort": "fast"}


def hourly(n=1500, days=800, seed=0):
    rng = np.random.default_rng(seed)
    at = np.sort(rng.permutation(24 * days)[:n])
    when = np.datetime64("2021-01-01T00") + at.astype("timedelta64[h]")
    hour, weekday = at % 24, (at // 24 + 4) % 7  # the first of January 2021 was a Friday
    season = 2 * np.pi * (at / 24 % 365.25) / 365.25
    y = np.sin(2 * np.pi * hour / 24) * (weekday < 5) + np.cos(season) + 0.001 * at / 24 + 0.2 * rng.normal(size=n)
    return pd.DataFrame({"when": when, "x": rng.normal(size=n)}), y


def test_parts_are_those_of_the_calendar():
    rng = np.random.default_rng(0)
    moments = pd.Series(pd.to_datetime(rng.integers(-(10**9), 3 * 10**9, 300), unit="s"))
    table = read_table(pd.DataFrame({"when": moments}))
    assert table.names == ("when (trend)", "when (season)", "when (weekday)", "when (hour)")
    assert table.dates == ("when",)
    for value, trend, season, weekday, hour in zip(moments, *table.columns, strict=True):
        plain = value.to_pydatetime()
        assert season == plain.timetuple().tm_yday - 1
        assert weekday == plain.weekday()
        assert hour == pytest.approx(plain.hour + plain.minute / 60 + plain.second / 3600)
        assert trend == pytest.approx((plain - datetime.datetime(1970, 1, 1)).total_seconds() / 86400)


def test_dates_of_every_library_are_the_same():
    X, _ = hourly(50)
    X.loc[3, "when"] = pd.NaT
    zoned = X.assign(when=X.when.dt.tz_localize("Europe/Berlin", nonexistent="shift_forward", ambiguous=True))
    tables = [read_table(given) for given in (X, pl.from_pandas(X), pl.from_pandas(X).to_arrow())]
    for other in tables[1:]:
        assert other.names == tables[0].names
        for a, b in zip(tables[0].columns, other.columns, strict=True):
            np.testing.assert_array_equal(a, b)
    assert np.isnan(tables[0].columns[0][3])
    assert read_table(zoned).columns[3][5] == tables[0].columns[3][5]  # as the clock showed it
    days = read_table(pl.DataFrame({"day": [datetime.date(2020, 2, 29), None]}))
    assert days.columns[1][0] == 59
    assert days.columns[2][0] == 5
    assert days.columns[3][0] == 0


def test_a_fit_finds_trend_season_weekdays_and_hours(tmp_path):
    X, y = hourly()
    model = AHOFMRegressor(order=2, **QUICK).fit(X, y)
    parts = ("when (trend)", "when (season)", "when (weekday)", "when (hour)")
    assert model.model_.encoder.names == (*parts, "x")
    kinds = [book.describe()["kind"] for book in model.model_.encoder.codebooks]
    assert kinds[1:4] == ["Cyclic"] * 3
    new, target = hourly(seed=1)
    assert model.score(new, target) > 0.9
    np.testing.assert_array_equal(model.predict(new), model.predict(pl.from_pandas(new[["x", "when"]])))
    model.save(tmp_path / "m.ahofm", uncertainty=False)
    np.testing.assert_array_equal(ahofm.load(tmp_path / "m.ahofm").predict(new), model.predict(new))
    assert model.n_features_in_ == 2
    assert list(model.feature_names_in_) == ["when", "x"]


@pytest.mark.parametrize(
    ("days", "unit", "parts"),
    [
        (800, "h", ["trend", "season", "weekday", "hour"]),
        (200, "h", ["trend", "weekday", "hour"]),
        (8, "h", ["trend", "hour"]),
        (800, "D", ["trend", "season", "weekday"]),
    ],
)
def test_parts_are_those_that_the_dates_can_tell(days, unit, parts):
    rng = np.random.default_rng(0)
    count = days if unit == "D" else 24 * days
    when = np.datetime64("2021-03-01") + rng.permutation(count)[:180].astype(f"timedelta64[{unit}]")
    X = pd.DataFrame({"when": when})
    model = AHOFMRegressor(order=1, **QUICK).fit(X, rng.normal(size=180))
    assert model.model_.encoder.names == tuple(f"when ({part})" for part in parts)
    assert np.isfinite(model.predict(X)).all()


def test_wishes_and_kinds_of_parts_count():
    X, y = hourly(300)
    chosen = {"when": Date(trend=False, weekday=False), "when (hour)": Linear()}
    model = AHOFMRegressor(order=1, columns=chosen, **QUICK).fit(X, y)
    assert model.model_.encoder.names == ("when (season)", "when (hour)", "x")
    assert [book.describe()["kind"] for book in model.model_.encoder.codebooks][:2] == ["Cyclic", "Linear"]
    with pytest.raises(ValueError, match=r"columns\['x'\] is Date, but the column holds no dates"):
        AHOFMRegressor(columns={"x": Date()}).fit(X, y)
    with pytest.raises(ValueError, match="column 'when': no part of its dates differs between rows"):
        AHOFMRegressor().fit(X.assign(when=X.when[0]), y)
    with pytest.raises(ValueError, match="are named as other columns; rename these"):
        AHOFMRegressor().fit(X.assign(**{"when (hour)": 1.0}), y)
    with pytest.raises(ValueError, match="missing: 'when"):
        model.predict(X[["x"]])
    with pytest.raises(TypeError, match="has type Duration"):
        AHOFMRegressor().fit(pd.DataFrame({"d": pd.to_timedelta(np.arange(50), unit="h")}), np.arange(50))


def test_the_command_reads_dates(tmp_path, capsys):
    run = pytest.importorskip("ahofm.cli.app").run
    X, y = hourly(600)
    X.assign(y=y).to_csv(tmp_path / "t.csv", index=False)
    words = ["fit", str(tmp_path / "t.csv"), "--target", "y", "--order", "1", "--effort", "fast", "--holdout", "0"]
    assert run([*words, "--out", str(tmp_path / "m"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [column["kind"] for column in found["columns"]][1:4] == ["Cyclic"] * 3
    assert run(["predict", str(tmp_path / "m"), str(tmp_path / "t.csv"), "--out", str(tmp_path / "p.csv")]) == 0
    predicted = pd.read_csv(tmp_path / "p.csv").prediction
    np.testing.assert_allclose(predicted, ahofm.load(tmp_path / "m").predict(X), rtol=1e-9)
    assert run([*words, "--out", str(tmp_path / "n"), "--time", "when", "--json"]) == 0

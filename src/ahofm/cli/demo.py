"""``ahofm demo``: simulated rows with a known truth, and diabetes progression; the fit beside a GAM and boosting."""

from __future__ import annotations

import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from sklearn.datasets import load_diabetes
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.model_selection import train_test_split

from ahofm.columns import Cyclic
from ahofm.columns.basis import Floats
from ahofm.columns.table import Table as Columns
from ahofm.estimators import AHOFMRegressor
from ahofm.explain import summary, top_interactions
from ahofm.writing import replacing

NOISE = 0.3
NAMES = ("temperature", "hour", "area", "town", "nothing")


def simulate(n: int, seed: int) -> tuple[Columns, Floats, Floats, dict[frozenset[str], float]]:
    """Columns of mixed types with missing values, the target, its mean, and how large interactions truly are."""
    rng = np.random.default_rng(seed)
    temperature, hour = rng.normal(15.0, 8.0, n), rng.integers(0, 24, n).astype(float)
    area, nothing = rng.exponential(1.0, n), rng.normal(size=n)
    town: NDArray[Any] = np.array(["Aachen", "Bonn", "Celle"], dtype=object)[rng.integers(0, 3, n)]
    warm, turn, bonn = np.tanh((temperature - 15.0) / 8.0), hour / 24.0 * 2 * np.pi, (town == "Bonn").astype(float)
    large = np.minimum(area, 3.0)
    pair = 1.6 * (warm - warm.mean()) * (np.cos(turn) - np.cos(turn).mean())
    triple = 1.2 * (warm - warm.mean()) * (large - large.mean()) * (bonn - bonn.mean())
    mean = np.sin(turn) + 0.5 * warm + 0.4 * bonn + pair + triple
    area = np.where(rng.random(n) < 0.02, np.nan, area)
    true = {frozenset(("temperature", "hour")): float(pair.std())}
    true[frozenset(("temperature", "area", "town"))] = float(triple.std())
    columns = Columns(NAMES, (temperature, hour, area, town, nothing), named=True)
    return columns, mean + NOISE * rng.normal(size=n), mean, true


def run_demo(folder: Path, console: Console) -> None:
    """Fit, compare, write."""
    folder.mkdir(parents=True, exist_ok=True)
    begun = time.perf_counter()
    X, y, _, true = simulate(8_000, 1)
    new, _, mean_new, _ = simulate(4_000, 2)
    console.print("Simulated: 8,000 rows, five columns (cyclic, text, missing values), one pair, one triple, noise 0.3")
    model = AHOFMRegressor(columns={"hour": Cyclic(period=24)}, random_state=0, verbose=1).fit(X, y)
    console.print(str(summary(model)), markup=False, highlight=False, soft_wrap=True)
    found = top_interactions(model, 4)
    rows = [
        [" x ".join(term), f"{std:.2f}", f"{true.get(frozenset(term), 0.0):.2f}"]
        for term, std in zip(found.terms, found.std, strict=True)
    ]
    _show(console, "Interactions: standard deviation found, and true", ("interaction", "found", "true"), rows)
    _compare(
        console,
        "Simulated data: error of the mean on 4,000 new rows",
        _numbers(X),
        y,
        _numbers(new),
        mean_new,
        model.model_.predict(new),
        model.model_.at_order(1).predict(new),
    )
    measured, progression = load_diabetes(return_X_y=True)
    train, test, y_train, y_test = train_test_split(measured, progression, test_size=0.25, random_state=0)
    real = AHOFMRegressor(random_state=0).fit(train, y_train)
    _compare(
        console,
        "Diabetes progression: error on 111 new rows (442 in all)",
        train,
        y_train,
        test,
        y_test,
        real.model_.predict(test),
        real.model_.at_order(1).predict(test),
    )
    model.save(folder / "model.ahofm")
    model.report(folder / "report.html", title="The demo: a simulated yield", target="yield")
    written = ["report.html", "model.ahofm", *_figures(model, folder)]
    console.print(
        f"{time.perf_counter() - begun:.0f} s. Written to {folder.resolve()}: {', '.join(written)}", soft_wrap=True
    )
    console.print(f"Open {(folder / 'report.html').resolve()} in a browser.", soft_wrap=True)


def _numbers(table: Columns) -> Floats:
    """Text as numbers, for boosting."""
    columns = [
        np.unique(column, return_inverse=True)[1] if column.dtype == object else column for column in table.columns
    ]
    return np.column_stack(columns).astype(np.float64)


def _compare(
    console: Console, title: str, X: Any, y: Floats, new: Any, truth: Floats, own: Floats, additive: Floats
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        boosted = HistGradientBoostingRegressor(random_state=0).fit(X, y).predict(new)
    rows = [
        [name, f"{float(np.sqrt(np.mean((values - truth) ** 2))):.3f}"]
        for name, values in (
            ("ahofm, order 3", own),
            ("GAM (ahofm, order 1)", additive),
            ("gradient boosting", boosted),
        )
    ]
    _show(console, title, ("model", "RMSE"), rows)


def _figures(model: Any, folder: Path) -> list[str]:
    """With matplotlib, if it is there."""
    try:
        import matplotlib as mpl  # noqa: PLC0415 - the demo runs without it, too

        from ahofm.plot import EffectDisplay, SharesDisplay, SurfaceDisplay  # noqa: PLC0415 - draws with it
    except ImportError:
        return []
    mpl.use("Agg")
    drawn = {
        "shares.png": SharesDisplay.from_estimator(model),
        "hour.png": EffectDisplay.from_estimator(model, "hour"),
        "temperature_hour.png": SurfaceDisplay.from_estimator(model, ["temperature", "hour"]),
    }
    for name, display in drawn.items():
        with replacing(folder / name) as draft:
            display.figure_.savefig(draft, dpi=120, format="png")
    return list(drawn)


def _show(console: Console, title: str, header: tuple[str, ...], rows: list[list[str]]) -> None:
    console.print(f"\n{title}")
    table = Table(*header)
    for row in rows:
        table.add_row(*row)
    console.print(table)

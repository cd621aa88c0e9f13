"""What explaining costs: Shapley values beside predictions, the search at 200 columns, the report page at 50 columns.

``make bench-explain`` prints the table and writes benchmarks/results/explain.csv. The page is opened in a Chromium, if
there is one (``make test-browser`` installs it).
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ahofm import AHOFMRegressor
from ahofm.explain import shapley_values, top_interactions
from ahofm.report import write
from benchmarks.table import Row, finish, require, show


def fitted(n: int, columns: int, **settings: Any) -> tuple[Any, Any]:
    """A model of random columns with a pair and a triple, and its rows."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, columns))
    y = X[:, 0] * X[:, 1] + X[:, 2] * X[:, 3] * np.sin(X[:, 4]) + 0.5 * rng.normal(size=n)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return AHOFMRegressor(order=3, random_state=0, **settings).fit(X, y), X


def fastest(task: Callable[[], Any], repeats: int = 7) -> float:
    """Least seconds of some calls."""
    times = []
    for _ in range(repeats):
        begun = time.perf_counter()
        task()
        times.append(time.perf_counter() - begun)
    return min(times)


def shapley() -> list[Row]:
    """100,000 rows, 20 columns, order 3, rank 8."""
    model, _ = fitted(3_000, 20, rank=8, smoothing="df", max_iter=3)
    rows = np.random.default_rng(1).normal(size=(100_000, 20))
    predict, explain = fastest(lambda: model.predict(rows)), fastest(lambda: shapley_values(model, rows))
    return [
        Row("100,000 rows, 20 columns, predict", predict, "s"),
        Row("100,000 rows, 20 columns, Shapley values", explain, "s"),
        require("Shapley values over predict", explain / predict, "x", most=6.0),
    ]


def search() -> list[Row]:
    """200 columns: 1.3 million triples."""
    model, _ = fitted(3_000, 200, rank=8, factor_prior="spline", n_members=1, max_iter=10)
    seconds = fastest(lambda: top_interactions(model, 20, 3), 3)
    return [require("200 columns, the 20 strongest triples", seconds, "s", most=5.0)]


def page() -> list[Row]:
    """The default at 50 columns."""
    model, _ = fitted(3_000, 50)
    with tempfile.TemporaryDirectory() as folder:
        begun = time.perf_counter()
        path = write(model, Path(folder) / "page.html")
        found = [
            Row("page of 50 columns, writing", time.perf_counter() - begun, "s"),
            require("page of 50 columns, size", path.stat().st_size / 1e6, "MB", most=6.0),
        ]
        chromium = os.environ.get("CHROMIUM") or shutil.which("chromium")
        if chromium:
            found.append(require("page of 50 columns, opening", opening(path, chromium), "s", most=2.0))
        else:
            print("no Chromium: the page was not opened")
    return found


def opening(path: Path, chromium: str) -> float:
    """Seconds until everything is drawn, in a browser that runs."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - only where there is a browser

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        one = browser.new_page()
        one.goto("about:blank")
        begun = time.perf_counter()
        one.goto(path.as_uri())
        one.wait_for_selector("html[data-ready=yes]")
        seconds = time.perf_counter() - begun
        browser.close()
    return seconds


def main() -> int:
    """All of them."""
    table = []
    for part in (shapley, search, page):
        table += (rows := part())
        show(rows)
    return finish("explain", table, written=True)


if __name__ == "__main__":
    sys.exit(main())

"""Many rows: time, passes, memory and error of the default at order 2, beside LightGBM and EBM.

``make bench-many-rows`` prints the table and writes benchmarks/results/many_rows.csv. Ten columns, smooth main effects
and three smooth pair interactions; the error is that of the mean on new rows. Each fit runs in a process of its own;
memory is what its peak adds to the table that is there before.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
import warnings
from typing import Any

import numpy as np

from ahofm.columns.basis import Floats
from benchmarks.table import Row, finish, require, show

COLUMNS = 10


def draw(n: int, seed: int) -> tuple[Floats, Floats, Floats]:
    """Columns, targets with noise of standard deviation 1, and their means."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, size=(n, COLUMNS))
    mean = np.sin(3 * X[:, 0]) + X[:, 1] ** 2 + X[:, 8]
    mean += np.sin(2 * X[:, 2]) * X[:, 3] + 2 * X[:, 4] * X[:, 5] + np.exp(-2 * (X[:, 6] - X[:, 7]) ** 2)
    return X, mean + rng.normal(size=n), mean


def estimator(name: str) -> Any:
    """By its name."""
    if name == "ahofm":
        from ahofm import AHOFMRegressor  # noqa: PLC0415 - each in a process of its own

        return AHOFMRegressor(order=2, random_state=0)
    if name == "LightGBM":
        from lightgbm import LGBMRegressor  # noqa: PLC0415 - an optional peer

        return LGBMRegressor(verbose=-1, random_state=0)
    from interpret.glassbox import ExplainableBoostingRegressor  # noqa: PLC0415 - an optional peer

    return ExplainableBoostingRegressor(random_state=0)


def child(name: str, n: int) -> dict[str, float]:
    """Fit in this process: seconds, error, memory and passes."""
    X, y, _ = draw(n, 0)
    small = draw(2_000, 2)
    model = estimator(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        estimator(name).fit(small[0], small[1])  # whatever is loaded or started on first use
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        begun = time.perf_counter()
        model.fit(X, y)
        seconds = time.perf_counter() - begun
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    new, _, mean = draw(100_000, 1)
    error = float(np.sqrt(np.mean((model.predict(new) - mean) ** 2)))
    passes = model.trace_.records[-1].passes if name == "ahofm" else 0.0
    return {"seconds": seconds, "error": error, "megabytes": peak / 1024, "passes": passes}


def measure(name: str, n: int) -> dict[str, float]:
    """The same in another process."""
    command = [sys.executable, "-m", "benchmarks.many_rows", "--child", name, "--rows", str(n)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def main() -> int:
    """All sizes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--without-ebm", action="store_true", help="EBM takes minutes; results are not kept without it")
    given = parser.parse_args()
    if given.child:
        print(json.dumps(child(given.child, given.rows)))
        return 0
    n, some = given.rows, given.rows // 10
    own, few, peer = measure("ahofm", n), measure("ahofm", some), measure("LightGBM", n)
    megabytes = 3 * n * COLUMNS / 1e6 + 200
    table = [
        Row(f"{n} rows, fit", own["seconds"], "s"),
        Row(f"{n} rows, fit, LightGBM", peer["seconds"], "s"),
        require(f"{n} rows, over LightGBM", own["seconds"] / peer["seconds"], "x", most=10),
        Row(f"{n} rows, error", own["error"], "RMSE"),
        require(f"{n} rows, error over LightGBM's", own["error"] / peer["error"], "x", most=1),
        require(f"{n} rows, passes", own["passes"], "", most=60),
        require(f"{n} rows, memory on top", own["megabytes"], "MB", most=megabytes),
        Row(f"{some} rows, fit", few["seconds"], "s"),
        Row(f"{some} rows, error", few["error"], "RMSE"),
    ]
    if not given.without_ebm:
        ebm = measure("EBM", some)
        table += [
            Row(f"{some} rows, fit, EBM", ebm["seconds"], "s"),
            require(f"{some} rows, EBM over ahofm", ebm["seconds"] / few["seconds"], "x", least=20),
            Row(f"{some} rows, error, EBM", ebm["error"], "RMSE"),
        ]

    show(table)
    written = n >= 1_000_000 and not given.without_ebm
    return finish("many_rows", table, ["lightgbm", "interpret-core"], written=written)


if __name__ == "__main__":
    sys.exit(main())

"""What a sweep of the variational solver costs, and a whole fit.

``make bench-block`` prints the table and writes benchmarks/results/block.csv and block.json. A sweep is compared with
gradient passes over the same rows at the same ranks, with itself at other sizes, and with the NumPy reference; a fit of
a table of Concrete's size (1,030 x 8, simulated) with EBM's default where `interpret` is installed.

How a sweep grows with rows and columns is measured on one thread in processor time, by medians of interleaved rounds.
By the wall clock, long runs meet more of what else the machine does than short ones, which raises the exponent: on a
busy machine it was 1.12 where processor time gives .96 to .97. States of fewer than about 60,000 rows fit a third-level
cache of 32 MiB and cost a sixth less per row: the sizes begin above.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from ahofm import AHOFMRegressor
from ahofm.backends.row_states import RowStates
from ahofm.columns import Codes
from ahofm.columns.basis import Floats
from ahofm.kernels import (
    ColumnMoments,
    NativeKernel,
    NativeRowStateKernel,
    ReferenceRowStateKernel,
    RowStateKernel,
    Tables,
)
from ahofm.rows import ArraySource, ThreadExecutor, fold
from benchmarks.table import Row, finish, require, show
from benchmarks.timing import race

RANKS = {2: 8, 3: 8}


def codes_of(n: int, p: int, size: int = 256, seed: int = 0) -> Codes:
    """Random codes."""
    rng = np.random.default_rng(seed)
    return Codes(tuple(rng.integers(0, size, n).astype(np.uint8) for _ in range(p)), (size,) * p)


def sweep_of(
    codes: Codes, ranks: dict[int, int], kernel: RowStateKernel, n_threads: int | None = None
) -> Callable[[], None]:
    """One sweep over all columns' row steps."""
    rng = np.random.default_rng(1)
    width = 1 + sum(ranks.values())
    moments = [
        ColumnMoments(j, 0.3 * rng.normal(size=(size, width)), 0.1 * rng.exponential(size=(size, width)))
        for j, size in enumerate(codes.sizes)
    ]
    rows = RowStates(ArraySource(codes), ThreadExecutor(n_threads), kernel, ranks)
    weight = np.ones(codes.n_rows)
    rows.set_working_response(weight, rng.normal(size=codes.n_rows))
    for one in moments:
        rows.add_column(one)

    def sweep() -> None:
        waiting: ColumnMoments | None = None
        for one in moments:
            rows.swap_columns(waiting, one)
            waiting = one
        rows.add_column(moments[-1])

    return sweep


def gradient_of(codes: Codes, ranks: dict[int, int]) -> Callable[[], object]:
    """One gradient pass."""
    rng = np.random.default_rng(2)
    n_codes = codes.n_codes
    tables = Tables(
        0.0, rng.normal(size=n_codes), {order: 0.3 * rng.normal(size=(n_codes, rank)) for order, rank in ranks.items()}
    )
    source = ArraySource(codes, rng.normal(size=codes.n_rows).astype(np.float32))
    kernel, executor = NativeKernel("float32"), ThreadExecutor(None)
    return lambda: fold(lambda chunk: kernel.value_and_gradient(chunk, [tables], "gaussian"), source, executor)


def exponent(sizes: list[int], seconds: list[float]) -> float:
    """Slope of log seconds on log size."""
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def sweeps(n: int, patience: float) -> list[Row]:
    """Cost of a sweep."""
    codes = codes_of(n, 10)
    both = {"sweep": sweep_of(codes, RANKS, NativeRowStateKernel("float32")), "gradient": gradient_of(codes, RANKS)}
    times = race(both, patience)
    table = [
        require(
            "sweep over gradient pass, 10 columns, rank 8 at orders 2, 3",
            times.ratio("sweep", "gradient"),
            "x",
            most=12,
        )
    ]
    small = codes_of(4_000, 10)
    slow = race(
        {
            "native": sweep_of(small, RANKS, NativeRowStateKernel("float32"), 1),
            "NumPy": sweep_of(small, RANKS, ReferenceRowStateKernel(), 1),
        },
        patience,
        2,
    )
    table.append(require("NumPy row pass over native, one thread", slow.ratio("NumPy", "native"), "x", least=10))
    by_n = {k: codes_of(k, 10) for k in (n // 8, n // 4, n // 2, n)}
    table.append(require("exponent of a sweep in rows", growth(by_n, patience), "", most=1.1))
    by_p = {k: codes_of(n // 4, k) for k in (5, 10, 20, 40)}
    table.append(require("exponent of a sweep in columns", growth(by_p, patience), "", most=1.1))
    return table


def growth(tables: dict[int, Codes], patience: float) -> float:
    """Exponent of the processor time of a sweep in a size of the tables."""
    kernel = NativeRowStateKernel("float32")
    times = race(
        {str(size): sweep_of(codes, RANKS, kernel, 1) for size, codes in tables.items()},
        patience,
        clock=time.process_time,
    )
    return exponent(list(tables), [times.median(str(size)) for size in tables])


def concrete_like(n: int = 927, p: int = 8) -> tuple[Floats, Floats]:
    """A table of Concrete's size, with pairs and a triple in it."""
    rng = np.random.default_rng(0)
    X = np.round(rng.uniform(size=(n, p)), 2)
    y = np.sin(6 * X[:, 0]) + X[:, 1] * X[:, 2] + 2 * (X[:, 3] - 0.5) * np.sin(3 * X[:, 4]) * X[:, 5]
    return X, y + 0.1 * rng.normal(size=n)


def fits() -> list[Row]:
    """Seconds of whole fits."""
    X, y = concrete_like()

    def seconds(model: Any) -> float:
        begun = time.perf_counter()
        model.fit(X, y)
        return time.perf_counter() - begun

    seconds(AHOFMRegressor(order=1, n_members=1))  # whatever is loaded or started on first use
    one = min(seconds(AHOFMRegressor(factor_prior="spline_iid", n_members=1, random_state=k)) for k in range(3))
    whole = min(seconds(AHOFMRegressor(random_state=k)) for k in range(2))
    table = [
        require("fit, one member, interactions given", one, "s", most=1),
        require("fit, all choices automatic, three members", whole, "s", most=10),
    ]
    if importlib.util.find_spec("interpret") is not None:
        from interpret.glassbox import ExplainableBoostingRegressor  # noqa: PLC0415 - an optional peer

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            peer = seconds(ExplainableBoostingRegressor())
        table += [Row("fit, EBM default", peer, "s"), require("EBM over ahofm", peer / whole, "x", least=5)]
    return table


def main() -> int:
    """Run all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=float, default=15.0, help="of every race")
    given = parser.parse_args()
    table = sweeps(given.rows, given.seconds)
    show(table)
    rest = fits()
    show(rest)
    return finish("block", [*table, *rest], ["interpret-core"], written=given.rows >= 1_000_000)


if __name__ == "__main__":
    sys.exit(main())

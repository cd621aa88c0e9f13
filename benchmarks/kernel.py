"""How fast one full value-and-gradient pass is, against plain PyTorch and the NumPy reference, in one run.

``make bench-kernel`` prints the table and writes benchmarks/results/kernel.csv and kernel.json (the machine).
Every requirement is a ratio within the run. "order d" is the model with factors of order d and main effects;
"up to order d" has factors of every order 2..d, each of the full rank.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from ahofm import _native
from ahofm.columns import Codes, Encoder
from ahofm.kernels import INSTRUCTION_SETS, Kernel, NativeKernel, ReferenceKernel, Tables
from ahofm.rows import ArraySource, Executor, SerialExecutor, ThreadExecutor, fold
from benchmarks.bench_torch import TorchModel
from benchmarks.table import Row, finish, require, show
from benchmarks.timing import race

CODES, COLUMNS, RANK, FUNCTIONS = 256, 10, 16, 20
TORCH_ROWS, TORCH_BATCHES = 32_768, (256, 1_024, 4_096, 16_384)
REFERENCE_ROWS = 2_000


class Problem:
    """Random codes and tables of one shape."""

    def __init__(self, n: int, p: int = COLUMNS, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.n, self.p, self.rng = n, p, rng
        columns = tuple(rng.integers(0, CODES, n, dtype=np.uint8) for _ in range(p))
        self.source = ArraySource(Codes(columns, (CODES,) * p), rng.normal(size=n).astype(np.float32))

    def tables(self, orders: tuple[int, ...], rank: int) -> Tables:
        """Values of a size that keeps eta of order one."""
        scale = {order: (self.p * rank ** (1 / order)) ** -0.5 for order in orders}
        factors = {order: scale[order] * self.rng.normal(size=(self.p * CODES, rank)) for order in orders}
        return Tables(0.1, self.rng.normal(size=self.p * CODES), factors)

    def run(self, orders: tuple[int, ...], rank: int, kernel: Kernel, executor: Executor) -> Callable[[], object]:
        """A full pass, ready to be timed."""
        task = partial(kernel.value_and_gradient, linear_predictors=[self.tables(orders, rank)], loss="gaussian")
        return partial(fold, task, self.source, executor)


def measure_speed(rows: int, seconds: float) -> list[Row]:
    """Rows per second of everybody, taking turns."""
    small, wide = Problem(rows), Problem(rows // 4, p=5 * COLUMNS)
    tiny = Problem(REFERENCE_ROWS)
    native, one, reference = NativeKernel(), SerialExecutor(), ReferenceKernel()
    every = ThreadExecutor()
    runs: dict[str, tuple[Callable[[], object], int]] = {}
    for order in (2, 3, 4):
        upto = tuple(range(2, order + 1))
        runs[f"order {order}, 1 thread"] = small.run((order,), RANK, native, one), rows
        runs[f"up to order {order}, all threads"] = small.run(upto, RANK, native, every), rows
    for order in (2, 3):
        upto = tuple(range(2, order + 1))
        runs[f"reference, up to order {order}"] = tiny.run(upto, RANK, reference, one), REFERENCE_ROWS
        dense = np.random.default_rng(1).random((TORCH_ROWS, COLUMNS, FUNCTIONS), dtype=np.float32)
        target = np.zeros(TORCH_ROWS, dtype=np.float32)
        for batch in TORCH_BATCHES:
            torch_model = TorchModel(dense, target, upto, RANK, batch)
            runs[f"torch, up to order {order}, batch {batch}"] = torch_model.value_and_gradient, TORCH_ROWS
    runs["order 2, rank 8, 1 thread"] = small.run((2,), 8, native, one), rows
    runs["order 2, 50 columns, 1 thread"] = wide.run((2,), RANK, native, one), rows // 4
    runs["order 2, float64 rows, 1 thread"] = small.run((2,), RANK, NativeKernel("float64"), one), rows
    runs["order 2, baseline instructions, 1 thread"] = (
        small.run((2,), RANK, NativeKernel(instruction_set="baseline"), one),
        rows,
    )
    results = race({name: run for name, (run, _) in runs.items()}, seconds)
    rows_of = {name: n for name, (_, n) in runs.items()}
    rate = {name: n / results.best(name) for name, n in rows_of.items()}
    peak = max(_native.multiply_add_rate(INSTRUCTION_SETS[-1], 10_000_000) for _ in range(5))

    def times(fast: str, slow: str) -> float:
        """How many times as many rows per second."""
        return results.ratio(slow, fast) * rows_of[fast] / rows_of[slow]

    table = [Row(name, value / 1e6, "Mrows/s") for name, value in rate.items()]
    for order in (2, 3):
        ours = f"up to order {order}, all threads"
        peers = [f"torch, up to order {order}, batch {batch}" for batch in TORCH_BATCHES]
        over = min(times(ours, peer) for peer in peers)
        table.append(require(f"up to order {order} over torch at its best batch", over, "x", least=20))
        over = times(ours, f"reference, up to order {order}")
        table.append(require(f"up to order {order} over the NumPy reference", over, "x", least=100))
    order_2, order_4 = "order 2, 1 thread", "order 4, 1 thread"
    table += [
        require("time of 50 columns over 10", times(order_2, "order 2, 50 columns, 1 thread"), "x", most=5.5),
        require("rank 8 over rank 16", times("order 2, rank 8, 1 thread", order_2), "x", least=1),
        require("time of order 4 over order 2", times(order_2, order_4), "x", most=4),
        require(
            "time of up to order 4 over up to order 2",
            times("up to order 2, all threads", "up to order 4, all threads"),
            "x",
            most=4,
        ),
        require("order 2, one core", rate[order_2] / 1e6, "Mrows/s", least=19.5),
        require("order 3, one core", rate["order 3, 1 thread"] / 1e6, "Mrows/s", least=9.2),
    ]
    for order in (2, 3, 4):
        # forward: d multiply-adds a cell and factor (the first is an addition); backward: 1 at order 2, else d
        problem = 2.0 * COLUMNS * RANK * (order + (1 if order == 2 else order)) * rate[f"order {order}, 1 thread"]
        table.append(Row(f"order {order}: share of the multiply-add peak", problem / peak, "of 1"))
    table.append(Row("multiply-add peak of one core", peak / 1e9, "Gflop/s"))
    return table


def measure_threads(rows: int, seconds: float) -> list[Row]:
    """Two threads against one, in a race of their own: short rounds, so that some of them find both cores quiet."""
    problem = Problem(rows)
    executors: dict[str, Executor] = {"1 thread": SerialExecutor(), "2 threads": ThreadExecutor(2)}
    runs = {
        f"order {order}, {name}": problem.run((order,), RANK, NativeKernel(), executor)
        for order in (2, 3)
        for name, executor in executors.items()
    }
    results = race(runs, seconds)
    table = [Row(f"{name} (own race)", rows / results.best(name) / 1e6, "Mrows/s") for name in runs]
    for order in (2, 3):
        ratio = results.ratio(f"order {order}, 1 thread", f"order {order}, 2 threads")
        table.append(require(f"order {order}: 2 threads over 1", ratio, "x", least=1.8))
    return table


def measure_encoding(rows: int, seconds: float) -> list[Row]:
    """Learning and encoding ten columns of floats against ten passes over the result."""
    problem = Problem(rows)
    X = np.random.default_rng(2).normal(size=(rows, COLUMNS))
    encoder = Encoder.learn(X)
    runs: dict[str, Callable[[], object]] = {
        "learn": lambda: Encoder.learn(X),
        "encode": lambda: encoder.encode(X),
        "pass": problem.run((2,), RANK, NativeKernel(), ThreadExecutor()),
    }
    results = race(runs, seconds, least_rounds=3)
    encode, learn = results.ratio("encode", "pass") / 10, results.ratio("learn", "pass") / 10
    return [
        Row("learn codebooks", results.best("learn") * 1e3, "ms"),
        require("encoding over ten passes", encode, "of 1", most=1),
        require("learning and encoding over ten passes", learn + encode, "of 1", most=1),
    ]


def measure_error(rows: int) -> list[Row]:
    """Float32 rows against brute force in float64: largest error of any sum, relative to the largest of its kind."""
    table = []
    for order, n in ((2, rows), (3, rows), (4, rows // 10), (5, rows // 10)):
        problem = Problem(n)
        tables = problem.tables((order,), RANK)
        kernels: tuple[Kernel, Kernel] = (NativeKernel(), ReferenceKernel())
        found, exact = [
            fold(
                partial(kernel.value_and_gradient, linear_predictors=[tables], loss="gaussian"),
                problem.source,
                ThreadExecutor(),
            )
            for kernel in kernels
        ]
        errors = [abs(found.value / exact.value - 1.0)]
        mine_and_theirs = found.gradient[0], exact.gradient[0]
        for mine, theirs in ([t.main for t in mine_and_theirs], [t.factors[order] for t in mine_and_theirs]):
            errors.append(float(np.abs(mine - theirs).max() / np.abs(theirs).max()))
        table.append(require(f"order {order}: error of float32 rows, {n:,} rows", max(errors), "relative", most=1e-5))
    return table


MEMORY_PROBE = """
from functools import partial
from pathlib import Path
import numpy as np
from ahofm.columns import Codes
from ahofm.kernels import NativeKernel, Tables
from ahofm.rows import ArraySource, ThreadExecutor, fold
def resident(field):  # of this process only: getrusage counts what the parent had before
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith(field))
n, p, codes = {rows}, 20, 256
rng = np.random.default_rng(0)
tables = [Tables(0.0, np.zeros(p * codes), {{2: rng.normal(size=(p * codes, 16))}})]
before = resident('VmRSS')
columns = []
for _ in range(p):
    column = np.empty(n, dtype=np.uint8)
    for start in range(0, n, 100_000):
        column[start : start + 100_000] = rng.integers(0, codes, len(column[start : start + 100_000]), dtype=np.uint8)
    columns.append(column)
y = np.ones(n, dtype=np.float32)
source = ArraySource(Codes(tuple(columns), (codes,) * p), y)
fold(partial(NativeKernel().value_and_gradient, linear_predictors=tables, loss="gaussian"), source, ThreadExecutor())
print((resident('VmHWM') - before) / (n * p + y.nbytes))
"""


def measure_memory(rows: int) -> list[Row]:
    """Peak resident memory of a process that makes codes and target and passes over them, beyond its start (Linux)."""
    if not Path("/proc/self/status").exists():
        return []
    run = subprocess.run(
        [sys.executable, "-c", MEMORY_PROBE.format(rows=rows)], capture_output=True, text=True, check=True
    )
    return [require(f"peak memory over codes and target, {rows:,} x 20", float(run.stdout), "x", most=1.3)]


def main() -> int:
    """Measure, show, write; the exit code says whether all bounds hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes, no file written: a check that it runs")
    quick = parser.parse_args().quick
    table: list[Row] = []
    rows = 50_000 if quick else 1_000_000
    parts: list[Callable[[], list[Row]]] = [
        partial(measure_speed, rows, 1 if quick else 80),
        partial(measure_threads, rows, 1 if quick else 40),
        partial(measure_encoding, rows, 1 if quick else 10),
        partial(measure_error, rows),
        partial(measure_memory, 200_000 if quick else 5_000_000),
    ]
    for part in parts:
        measured = part()
        show(measured)
        table += measured
    return finish("kernel", table, ["torch"], written=not quick)


if __name__ == "__main__":
    sys.exit(main())

"""Beyond memory and beyond one machine: a store on disk, and Dask workers on the cores of this one.

``make bench-scale`` prints the table and writes benchmarks/results/scale.csv. 20,000,000 rows of 20 columns are drawn
to Parquet (1.6 GB, as float32), coded into a store and fitted at order 2 and rank 8 in one process with a limit of
2 GB, whose peak is measured. What a pass over the store costs is compared with the same codes in memory, in turns; and
a pass by two workers with the same pass by one. The disk holds 2.4 GB meanwhile.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ahofm import AHOFMRegressor
from ahofm.columns.basis import Floats
from ahofm.kernels import Chunk, NativeKernel, Tables
from ahofm.rows import ArraySource, ThreadExecutor, fold
from benchmarks.table import Row, finish, require, show
from benchmarks.timing import race

COLUMNS, FILE_ROWS, RANK = 20, 1_000_000, 8
LIMIT = "2GB"


def draw(n: int, seed: int) -> tuple[NDArray[np.float32], NDArray[np.float32], Floats]:
    """Columns in single precision, targets with noise of standard deviation 1, and their means."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, size=(n, COLUMNS)).astype(np.float32)
    mean = np.sin(3 * X[:, 0]) + X[:, 1] ** 2 + X[:, 8]
    mean += np.sin(2 * X[:, 2]) * X[:, 3] + 2 * X[:, 4] * X[:, 5] + np.exp(-2 * (X[:, 6] - X[:, 7]) ** 2)
    return X, (mean + rng.normal(size=n)).astype(np.float32), mean.astype(np.float64)


def write(folder: Path, n_rows: int) -> None:
    """Files of a million rows."""
    import pyarrow as pa  # noqa: PLC0415 - of an extra
    import pyarrow.parquet as pq  # noqa: PLC0415 - of an extra

    folder.mkdir()
    for k, start in enumerate(range(0, n_rows, FILE_ROWS)):
        X, y, _ = draw(min(FILE_ROWS, n_rows - start), k)
        columns = {f"x{j}": X[:, j] for j in range(COLUMNS)} | {"y": y}
        pq.write_table(pa.table(columns), folder / f"{k:03d}.parquet", compression="none", use_dictionary=False)


def child_fit(folder: Path) -> dict[str, float]:
    """Build a store and fit it, in this process: seconds and the peak of its memory."""
    from ahofm.scale import CodeStore  # noqa: PLC0415 - of an extra

    begun = time.perf_counter()
    store = CodeStore.build(folder / "codes", folder / "table", target="y", memory_limit=LIMIT)
    built = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = AHOFMRegressor(order=2, rank=RANK, random_state=0).fit(store)
    fitted = time.perf_counter()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    new, _, mean = draw(100_000, 10_000)
    error = float(np.sqrt(np.mean((model.model_.predict(new) - mean) ** 2)))
    size = sum(path.stat().st_size for path in (folder / "codes").iterdir()) / 1e9
    return {
        "build": built - begun, "fit": fitted - built, "peak": peak, "error": error, "gigabytes": size,
        "passes": model.trace_.passes,
    }  # fmt: skip


def tables_of(sizes: tuple[int, ...]) -> tuple[Tables, ...]:
    """A linear predictor at codes of that many columns."""
    rng, n_codes = np.random.default_rng(0), sum(sizes)
    return (Tables(0.1, 0.1 * rng.normal(size=n_codes), {2: 0.1 * rng.normal(size=(n_codes, RANK))}),)


def task_of(sizes: tuple[int, ...]) -> Any:
    """A pass's work on a chunk."""
    return partial(NativeKernel("float32").value_and_gradient, linear_predictors=tables_of(sizes), loss="gaussian")


def child_passes(folder: Path, seconds: float) -> dict[str, float]:
    """Passes over a store and over the same codes in memory, in turns."""
    from ahofm.scale import CodeStore  # noqa: PLC0415 - of an extra
    from ahofm.scale.batch import joined_chunks  # noqa: PLC0415 - of an extra

    store = CodeStore.open(folder / "codes", memory_limit=LIMIT).source
    whole = joined_chunks([store.chunk(index) for index in range(store.n_chunks)])
    memory = ArraySource(whole.codes, whole.y, chunk_rows=store.chunk(0).n_rows)
    task, threads = task_of(store.sizes), ThreadExecutor()
    found = race({"store": lambda: fold(task, store, threads), "memory": lambda: fold(task, memory, threads)}, seconds)
    return {name: store.n_rows / found.best(name) for name in ("store", "memory")}


def coded(k: int, n_rows: int) -> Chunk:
    """A partition as a worker holds it."""
    from ahofm.columns import Codes  # noqa: PLC0415 - on a worker

    rng = np.random.default_rng(k)
    codes = tuple(rng.integers(0, 255, n_rows).astype(np.uint8) for _ in range(COLUMNS))
    return Chunk(Codes(codes, (256,) * COLUMNS), rng.normal(size=n_rows))


def cluster_pass(n_workers: int, n_rows: int, seconds: float) -> tuple[float, float]:
    """Best seconds of a pass over all rows, and of one over next to none, by workers of one thread each."""
    import distributed  # noqa: PLC0415 - of an extra

    from ahofm.scale.cluster import ClusterExecutor, ClusterSource  # noqa: PLC0415 - of an extra

    task = task_of((256,) * COLUMNS)
    with (
        distributed.LocalCluster(
            n_workers=n_workers, threads_per_worker=1, processes=True, dashboard_address=":0"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        executor = ClusterExecutor(client)

        def source(partitions: int, rows: int) -> ClusterSource:
            parts = [client.submit(coded, k, rows, pure=False) for k in range(partitions)]
            distributed.wait(parts)
            return ClusterSource(client, parts, [rows] * partitions, 65_536)

        large, small = source(2, n_rows // 2), source(2, 100)
        found = race(
            {"large": lambda: fold(task, large, executor), "small": lambda: fold(task, small, executor)}, seconds
        )
    return found.best("large"), found.best("small")


def in_child(*words: str) -> dict[str, float]:
    """The same program in another process."""
    command = [sys.executable, "-m", "benchmarks.scale", *words]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, float] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def main() -> int:
    """Everything."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--child", choices=["fit", "passes"], help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help="where files go; a temporary folder by default")
    parser.add_argument("--rows", type=int, default=20_000_000, help="fewer are not kept as results")
    parser.add_argument("--seconds", type=float, default=30.0, help="of each comparison")
    given = parser.parse_args()
    if given.child:
        run = child_fit(given.folder) if given.child == "fit" else child_passes(given.folder, given.seconds)
        print(json.dumps(run))
        return 0
    with tempfile.TemporaryDirectory(dir=given.folder) as name:
        folder = Path(name)
        write(folder / "table", given.rows)
        own = in_child("--child", "fit", "--folder", name)
        passes = in_child("--child", "passes", "--folder", name, "--seconds", str(given.seconds))
    one, _ = cluster_pass(1, given.rows // 5, given.seconds)
    two, overhead = cluster_pass(2, given.rows // 5, given.seconds)
    n = given.rows
    table = [
        Row(f"{n} x {COLUMNS} rows, store on disk", own["gigabytes"], "GB"),
        Row("build: learn and code", own["build"], "s"),
        Row("build, rows per second", n / own["build"] / 1e6, "M/s"),
        Row(f"fit at order 2 and rank {RANK}", own["fit"], "s"),
        Row("passes over all rows", own["passes"], ""),
        Row("error of the mean on new rows", own["error"], "RMSE"),
        require("peak memory of build and fit", own["peak"], "MiB", most=2e9 / 2**20),
        Row("pass over the store, rows per second", passes["store"] / 1e6, "M/s"),
        Row("pass over memory, rows per second", passes["memory"] / 1e6, "M/s"),
        require("store over memory", passes["store"] / passes["memory"], "x", least=0.7),
        Row(f"Dask, pass over {n // 5} rows, one worker", one, "s"),
        Row(f"Dask, pass over {n // 5} rows, two workers", two, "s"),
        require("Dask, one worker over two", one / two, "x", least=1.6),
        require("Dask, a pass over next to no rows", 1e3 * overhead, "ms", most=50),
    ]
    show(table)
    return finish("scale", table, ["pyarrow", "dask", "distributed"], written=n >= 20_000_000)


if __name__ == "__main__":
    sys.exit(main())

"""Every executor gives the same sums, to the bit. A new executor is tested by its line in EXECUTORS."""

import multiprocessing
import os
import time
import warnings
from functools import partial

import numpy as np
import pytest

from ahofm.kernels import Chunk, NativeKernel, ReferenceKernel
from ahofm.rows import ArraySource, Executor, SerialExecutor, ThreadExecutor, fold
from tests.problems import random_chunk, random_tables

EXECUTORS = [
    pytest.param(SerialExecutor(), id="serial"),
    *[pytest.param(ThreadExecutor(n), id=f"threads-{n}") for n in (1, 2, 5, 16)],
    pytest.param(ThreadExecutor(), id="threads-all"),
]
every_executor = pytest.mark.parametrize("executor", EXECUTORS)


@pytest.fixture(scope="module")
def source():
    chunk = random_chunk(np.random.default_rng(0), 20_000, (3, 50, 7, 9), loss="bernoulli", weighted=True)
    return ArraySource(chunk.codes, chunk.y, chunk.weight, chunk.offset, chunk_rows=777)


@every_executor
def test_is_an_executor(executor):
    assert isinstance(executor, Executor)


@every_executor
def test_results_come_in_chunk_order(executor, source):
    sizes = list(executor.map(lambda chunk: chunk.y[0], source))
    assert sizes == list(source.y[::777])


@every_executor
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_sums_are_the_same_to_the_bit(executor, source, precision):
    tables = [random_tables(np.random.default_rng(1), 69, {2: 5, 3: 9}, scale=0.2)]
    task = partial(NativeKernel(precision).value_and_gradient, linear_predictors=tables, loss="bernoulli")
    serial = fold(task, source, SerialExecutor())
    for _ in range(3):
        total = fold(task, source, executor)
        assert total.value == serial.value
        for mine, theirs in zip(total.gradient, serial.gradient, strict=True):
            assert mine.intercept == theirs.intercept
            np.testing.assert_array_equal(mine.main, theirs.main)
            for order in theirs.factors:
                np.testing.assert_array_equal(mine.factors[order], theirs.factors[order])


@every_executor
def test_column_sums_fold_too(executor, source):
    tables = random_tables(np.random.default_rng(1), 69, {2: 3})
    kernel = NativeKernel("float64")

    def task(chunk):
        return kernel.column_sums(chunk, tables, 1, chunk.y, chunk.weight)

    total = fold(task, source, executor)
    whole = ReferenceKernel().column_sums(Chunk(source.codes), tables, 1, source.y, source.weight)
    np.testing.assert_allclose(total.g, whole.g, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(total.h, whole.h, rtol=1e-9, atol=1e-9)


@every_executor
def test_an_error_in_a_chunk_is_raised_and_leaves_nothing_running(executor, source):
    running = []

    def fail_at_third(chunk):
        running.append(1)
        try:
            if np.shares_memory(chunk.y, source.y[2 * 777 : 3 * 777]):
                raise RuntimeError("third chunk")
            time.sleep(0.001)
            return 0.0
        finally:
            running.pop()

    with pytest.raises(RuntimeError, match="third chunk"):
        fold(fail_at_third, source, executor)
    assert not running
    assert len(list(executor.map(lambda chunk: 0.0, source))) == source.n_chunks, "and it can be used again"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_threads_survive_a_fork(source):
    """Worker processes made by fork inherit no threads and must start their own."""
    tables = [random_tables(np.random.default_rng(1), 69, {2: 2})]
    task = partial(NativeKernel().value_and_gradient, linear_predictors=tables, loss="gaussian")
    expected = fold(task, source, ThreadExecutor(2)).value
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # forking a process with threads, which is the point
        with multiprocessing.get_context("fork").Pool(1) as pool:
            assert pool.apply_async(_value, (task, source)).get(timeout=60) == expected


def _value(task, source):
    return fold(task, source, ThreadExecutor(2)).value


@every_executor
def test_few_results_are_alive_at_a_time(executor, source):
    """Sums are folded while others are computed: memory does not grow with the number of chunks."""
    many = ArraySource(source.codes, source.y, chunk_rows=50)
    n_threads = getattr(executor, "n_threads", 1) or os.cpu_count()
    started = []
    results = executor.map(lambda chunk: started.append(1), many)
    next(results)
    assert len(started) <= 2 * n_threads + 1 < many.n_chunks
    results.close()
    assert len(started) <= 2 * n_threads + 1

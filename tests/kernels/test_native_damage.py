"""The compiled module, called directly with damaged arguments: exceptions, never a crash."""

import subprocess
import sys

import numpy as np
import pytest

from ahofm import _native
from ahofm.kernels import INSTRUCTION_SETS
from tests.kernels.damaged_calls import CALLS, ORDERS, block_call, codes, curve_call, linear_predictor


def test_every_function_is_called():
    public = {name for name in dir(_native) if not name.startswith("_") and callable(getattr(_native, name))}
    assert {name.split(",")[0] for name in CALLS} == public


@pytest.mark.slow
@pytest.mark.parametrize("isa", INSTRUCTION_SETS)
def test_damaged_arguments_raise(isa):
    """In a process of its own, which would die, and whose last line says at which call."""
    words = [sys.executable, "-m", "tests.kernels.damaged_calls", isa]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=300)
    last = done.stdout.splitlines()[-1] if done.stdout else ""
    assert done.returncode == 0, f"exit status {done.returncode} at call {last}\n{done.stderr[-2000:]}"
    assert last.startswith("done")


def moments(column=0, size=3, code=0):
    """A column for the block solver, with some code in the last row."""
    own = codes()[0].copy()
    own[-1] = code
    width = 1 + sum(rank for _, rank in ORDERS)
    return column, own, np.zeros((size, width)), np.ones((size, width))


def call_block(**changes):
    names = ["state", "n", "ranks", "add_column", "remove_column", "gram", "rhs"]
    given = {**dict(zip(names, block_call(), strict=True)), **changes}
    _native.block("baseline", *given.values())


BIG = 2**63 - 1

REFUSED = {
    "too short": (lambda: _native.pull_back("baseline", True, codes(), [3, 300], [(0.5,)], np.ones((70, 1))),
        r"linear predictor 0: expected \(intercept, main, main sums or None, \[factors, ...\]\)"),
    "short factors": (lambda: _native.eta("baseline", True, codes(), [3, 300],
        [(*linear_predictor(False)[:3], [(2,)])], None, np.zeros((70, 1))),
        r"factors: expected \(order, table, sums or None\)"),
    "sizes that overflow": (lambda: _native.eta("baseline", True, codes(), [3, BIG], [linear_predictor(False)], None,
        np.zeros((70, 1))), "more than 2\\^31 codes over all columns"),
    "an order beyond memory": (lambda: _native.eta("baseline", True, codes(), [3, 300],
        [(*linear_predictor(False)[:3], [(2**31 - 1, np.zeros((303, 2)), None)])], None, np.zeros((70, 1))),
        "order of a factor table must be between 2 and 1000, got 2147483647"),
    "short curves": (lambda: _native.curves("baseline", *curve_call((70, 1))[:2], [(0.0,)], np.zeros((70, 1))),
        r"linear predictor 0: expected \(intercept, main, \[panels, ...\]\)"),
    "short panels": (lambda: _native.curves("baseline", *curve_call((70, 1))[:2], [(0.0, np.zeros(31), [(2,)])],
        np.zeros((70, 1))), r"panels: expected \(order, panels, weights\)"),
    "a negative rank": (lambda: call_block(ranks=[(2, -3)]), "rank must be between 0 and 1048576, got -3"),
    "a rank that overflows": (lambda: _native.state_size([(2, BIG)], True), "rank must be between 0 and 1048576"),
    "an order without a state": (lambda: _native.state_size([(10**6, 1)], True),
        "order must be between 2 and 8, got 1000000"),
    "rows that overflow": (lambda: call_block(n=BIG), r"state has shape \(3, \d+\), expected \(288230376151711744, "),
    "a short column": (lambda: call_block(add_column=(0,)), r"expected \(column, codes, means, variances\)"),
    "a negative column": (lambda: call_block(add_column=moments(column=-1, code=200)),
        "column must be between 0 and .*, got -1"),
    "a code out of range": (lambda: call_block(add_column=moments(code=200)),
        "code 200 in row 69 of column 0 is out of range"),
    "edges without end": (lambda: _native.encode_numbers(np.zeros(2), np.arange(300.0), 3, np.zeros(2, np.uint8)),
        "out holds codes up to 255, but there are 300 edges and missing is 3"),
    "repeats without end": (lambda: _native.multiply_add_rate("baseline", BIG),
        "repeats must be between 1 and 1000000000"),
    "an unaligned array": (
        lambda: _native.inverses("baseline", np.zeros(73, np.uint8)[1:].view(float).reshape(1, 3, 3)),
        "matrices is not aligned: its address is no multiple of 8 bytes; copy it"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_wrong_is_named(name):
    call, message = REFUSED[name]
    with pytest.raises(ValueError, match=message):
        call()

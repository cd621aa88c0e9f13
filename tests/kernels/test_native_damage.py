"""The compiled module, called directly with damaged arguments: exceptions, never a crash."""

import gc
import subprocess
import sys
import time
import weakref

import numpy as np
import pytest

from ahofm import _native
from ahofm.kernels import INSTRUCTION_SETS
from tests.kernels.damaged_calls import (
    CALLS,
    ORDERS,
    codes,
    curve_call,
    engine_call,
    linear_predictor,
    run_engine,
    solve_call,
    squares,
    swap_call,
)


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
    given = {**dict(zip(names, swap_call(), strict=True)), **changes}
    _native.swap_columns("baseline", *given.values())


def engine_of(loss, n_eta=1, majorant=None, **rows):
    """An engine of two columns, with some arrays of the rows replaced."""
    given = engine_call((0, 1), [(2, 2)], n_eta, loss, False)
    given[1] |= rows
    return _native.Engine("baseline", *given[:-1], majorant)


def engine_with(part, **changes):
    """An engine whose first column, or the first column's arrays, are changed."""
    given = engine_call((0, 1), [(2, 2)], 1, None, False)
    {"column": given[2][0], "factors": given[2][0]["factors"], "mains": given[4]}[part].update(changes)
    return run_engine("baseline", *given)


def solve_with(**changes):
    given = solve_call(0)
    given[0] |= changes
    return _native.solve_prior("baseline", *given)


BIG = 2**63 - 1

REFUSED = {
    "too short": (lambda: _native.pull_back("baseline", True, codes(), [3, 300], [(0.5,)], np.ones((70, 1))),
        r"linear predictor 0: expected \(intercept, main, main sums or None, \[factors, ...\]\)"),
    "short factors": (lambda: _native.eta("baseline", True, codes(), [3, 300],
        [(*linear_predictor(False)[:3], [(2,)])], None, np.zeros((70, 1))),
        r"factors: expected \(order, table, loadings, sums or None\)"),
    "loadings of other factors": (lambda: _native.eta("baseline", True, codes(), [3, 300],
        [(*linear_predictor(False)[:3], [(2, np.zeros((303, 2)), np.ones(3), None)])], None, np.zeros((70, 1))),
        r"loadings has shape \(3\), expected \(2\)"),
    "sizes that overflow": (lambda: _native.eta("baseline", True, codes(), [3, BIG], [linear_predictor(False)], None,
        np.zeros((70, 1))), "more than 2\\^31 codes over all columns"),
    "an order beyond memory": (lambda: _native.eta("baseline", True, codes(), [3, 300],
        [(*linear_predictor(False)[:3], [(2**31 - 1, np.zeros((303, 2)), np.ones(2), None)])], None, np.zeros((70, 1))),
        "order of a factor table must be between 2 and 1000, got 2147483647"),
    "short curves": (lambda: _native.curves("baseline", *curve_call((70, 1))[:2], [(0.0,)], np.zeros((70, 1))),
        r"linear predictor 0: expected \(intercept, main, \[panels, ...\]\)"),
    "short panels": (lambda: _native.curves("baseline", *curve_call((70, 1))[:2], [(0.0, np.zeros(31), [(2,)])],
        np.zeros((70, 1))), r"panels: expected \(order, panels, weights, products\)"),
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
    "a prior of no kind": (lambda: solve_with(kind=4), "kind must be between 0 and 3, got 4"),
    "a prior without masses": (lambda: _native.solve_prior("baseline", {"kind": 2, "low": np.ones(1),
        "high": np.ones(1), "repeated": np.ones(4), "prior_trace": 3.0}, *solve_call(2)[1:]), "'mass' is missing"),
    "a group that is no number of one": (lambda: solve_with(group=np.array([0.0, 0.5])),
        "group must be whole numbers below 2"),
    "too few smoothing parameters": (lambda: solve_with(low=np.ones(1), high=np.ones(1)),
        "low must have 2 numbers, got 1"),
    "no column": (lambda: _native.Engine("baseline", *engine_call((0, 1), [(2, 2)], 1, None, False)[:2], [],
        *engine_call((0, 1), [(2, 2)], 1, None, False)[3:]), "columns: at least one is needed"),
    "squares of two": (lambda: engine_of(None, 2), "quadratic losses have one linear predictor, got 2"),
    "counts of two": (lambda: engine_of((1, 0.0), 2), "this family has one linear predictor, got 2"),
    "no family": (lambda: engine_of((6, 0.0)), "family must be between 0 and 5, got 6"),
    "a fraction of a class": (lambda: engine_of((5, 0.0), 2, y=np.full(70, 0.5)), "y must be the number of a class"),
    "a class too many": (lambda: engine_of((5, 0.0), 2, y=np.full(70, 2.0)), "y must be the number of a class"),
    "codes without end": (lambda: engine_with("column", n_codes=BIG), "a column must have between 1 and 2\\^31 codes"),
    "a code that the column does not have": (lambda: engine_with("column", codes=np.full(70, 4, np.uint8)),
        "code 4 in row 0 of column 0 is out of range: the column has 4 codes"),
    "values of other codes": (lambda: engine_with("factors", values=np.ones((9, 2))),
        r"values has shape \(9, 2\), expected \(3, 2\)"),
    "a sweep of nothing": (lambda: engine_of((1, 0.0)).sweep(True, True, False, 0.0),
        "states must be built before a sweep"),
    "nothing to evaluate": (lambda: engine_of(None).evaluate(), "quadratic losses have nothing to evaluate"),
    "a loss that becomes quadratic": (lambda: engine_of((1, 0.0)).set_loss(None), "a loss cannot become quadratic"),
    "a loss of one part": (lambda: engine_of(lambda eta: (eta,)).build(1.0),
        r"a loss: expected \(value, slope, curvature\)"),
    "a loss of other rows": (lambda: engine_of(lambda eta: (eta[:3, 0], eta, eta)).build(1.0),
        r"value has shape \(3\), expected \(70\)"),
    "an unaligned array": (
        lambda: _native.inverses("baseline", np.zeros(73, np.uint8)[1:].view(float).reshape(1, 3, 3)),
        "matrices is not aligned: its address is no multiple of 8 bytes; copy it"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_wrong_is_named(name):
    call, message = REFUSED[name]
    with pytest.raises(ValueError, match=message):
        call()


def test_functions_that_are_no_losses():
    with pytest.raises(TypeError, match="loss must be None"):
        engine_of("squares")
    with pytest.raises(TypeError, match="majorant must be a function or None"):
        engine_of(squares, majorant=3)
    with pytest.raises(TypeError, match="value must be an array of numbers"):
        engine_of(lambda eta: ("a", eta, eta)).build(1.0)
    with pytest.raises(ZeroDivisionError):
        engine_of(lambda eta: 1 / 0).build(1.0)
    engine = engine_of(squares, majorant=lambda eta, variance: eta[:1])
    engine.use_majorant = True
    with pytest.raises(ValueError, match="majorant has shape"):
        engine.build(1.0)


def test_an_engine_survives_what_it_refused():
    """A loss that raises in a sweep, one that is not taken, and numbers that are none."""
    calls = []

    def loss(eta):
        calls.append(eta)
        if len(calls) == 3:
            raise KeyError("third")
        return squares(eta)

    engine = engine_of(loss)
    engine.build(1.0)
    with pytest.raises(KeyError, match="third"):
        engine.sweep(True, True, False, 0.0)
    for wrong in ((9, 0.0), (1,), "loss", 3):
        with pytest.raises((ValueError, TypeError)):
            engine.set_loss(wrong)
    for name, value in (("dispersion", "one"), ("threads", 2**40), ("use_majorant", "yes"), ("damped", 0.5)):
        with pytest.raises(TypeError):
            setattr(engine, name, value)
    with pytest.raises(IndexError):
        engine.linear_predictor(1)
    with pytest.raises(TypeError):
        engine.linear_predictor(-1)
    engine.build(1.0)
    engine.sweep(True, True, False, 0.0)
    engine.dispersion = np.nan
    with pytest.raises(ArithmeticError):
        engine.sweep(True, True, False, 0.0)


def test_an_engine_that_runs_is_left_alone():
    tried = []

    def loss(eta):
        for call in (lambda: engine.build(1.0), lambda: engine.set_loss(squares), engine.evaluate):
            with pytest.raises(ValueError, match="the engine is running"):
                call()
            tried.append(call)
        return squares(eta)

    engine = engine_of(loss)
    engine.build(1.0)
    assert len(tried) == 3


def test_functions_that_refer_to_their_engine_are_collected():
    """A cycle of references that the garbage collector sees; it was reported as leaked when the process ended."""

    class Kept:
        pass

    def refer():
        kept = Kept()

        def stop():
            return engine is None or kept is None

        engine = engine_of(squares)
        engine.set_stop(stop)
        assert engine.build(1.0)
        return weakref.ref(kept)

    found = refer()
    gc.collect()
    assert found() is None


def test_classes_that_change_afterwards():
    y = np.ones(70)
    engine = engine_of((5, 0.0), 2, y=y)
    y[:] = 1e18
    engine.build(1.0)
    engine.sweep(True, True, False, 0.0)
    assert np.isfinite(engine.largest())


@pytest.mark.parametrize("loss", [None, (1, 0.0), squares], ids=["quadratic", "built in", "own"])
def test_an_engine_stops_when_it_is_asked_to(loss):
    """It asks a few times a second; a sweep that was stopped leaves no states."""
    engine, asked = engine_of(loss), []
    assert engine.build(1.0)

    def stop():
        asked.append(len(asked))
        return len(asked) > 1

    engine.set_stop(stop)
    for expected in (True, False):
        time.sleep(0.06)
        assert engine.sweep(True, True, False, 0.0) is expected
    assert len(asked) == 2
    with pytest.raises(ValueError, match="states must be built before a sweep"):
        engine.sweep(True, True, False, 0.0)
    time.sleep(0.06)
    assert not engine.build(1.0)
    engine.set_stop(None)
    assert engine.build(1.0)
    assert engine.sweep(True, True, False, 0.0)


def test_what_asks_an_engine_to_stop_may_fail():
    engine = engine_of((1, 0.0))
    with pytest.raises(TypeError, match="stop must be a function or None"):
        engine.set_stop(3)
    engine.build(1.0)
    engine.set_stop(lambda: 1 / 0)
    time.sleep(0.06)
    with pytest.raises(ZeroDivisionError):
        engine.sweep(True, True, False, 0.0)
    engine.set_stop(lambda: "perhaps")
    time.sleep(0.06)
    with pytest.raises((TypeError, RuntimeError)):
        engine.build(1.0)

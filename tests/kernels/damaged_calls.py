"""Calls every function of the compiled module with systematically damaged arguments: ``python -m ... baseline``.

Prints each call before it is made, so that the last line of a process that died tells which one it was.
"""

import sys
from itertools import count

import numpy as np

from ahofm import _native

N = 70  # rows: two full blocks and some
SIZES = [3, 300]
ORDERS = [(2, 3), (3, 9), (7, 2)]


def codes():
    """Two columns, of one and of two bytes."""
    rng = np.random.default_rng(0)
    return [rng.integers(0, 3, N).astype(np.uint8), rng.integers(0, 300, N).astype(np.uint16)]


def linear_predictor(with_sums):
    """One linear predictor of several orders, as the passes over codes take it."""
    rng, rows = np.random.default_rng(1), sum(SIZES)
    tables = [(order, rng.normal(size=(rows, rank))) for order, rank in ORDERS]
    factors = [(order, table, np.zeros_like(table) if with_sums else None) for order, table in tables]
    return (0.5, rng.normal(size=rows), np.zeros(rows) if with_sums else None, factors)


def curve_call(shape):
    """A column of numbers, one of codes, one that is periodic."""
    rng = np.random.default_rng(2)
    columns = [rng.normal(size=N), codes()[0], rng.normal(size=(N, 2))[:, 0]]
    number = (np.array([-1.0, 0.0, 1.0]), np.ones(4), np.zeros(4), 3, 0.0, 0.0)
    cyclic = (np.array([0.25, 0.5]), np.ones(3), np.zeros(3), 1, 0.5, 2.0)
    rows = 5 * 4 + 3 + 4 * 2
    groups = [(order, rng.normal(size=(2, rows, 8)), np.ones((2, 8))) for order in (2, 3)]
    return [columns, [number, 3, cyclic], [(0.0, rng.normal(size=rows), groups)], np.zeros(shape)]


def block_call():
    """One column goes in, another one comes out."""
    rng, (first, second) = np.random.default_rng(3), codes()
    width = 1 + sum(rank for _, rank in ORDERS)
    numbers = _native.state_size(ORDERS, True)
    state = np.zeros((-(-N // _native.STATE_BLOCK), _native.STATE_BLOCK * numbers))
    enters, leaves = (
        (j, own, rng.normal(size=(size, width)), np.ones((size, width)))
        for j, (own, size) in enumerate(zip((first, second), SIZES, strict=True))
    )
    return [state, N, list(ORDERS), enters, leaves, np.zeros((SIZES[1], width, width)), np.zeros((SIZES[1], width))]


WIDTH = 1 + sum(rank for _, rank in ORDERS)


def rows(isa):
    """What all passes over codes are given first."""
    return [isa, True, codes(), list(SIZES)]


def column_sums():
    return [np.zeros((SIZES[1], WIDTH)), np.zeros((SIZES[1], WIDTH, WIDTH))]


def matrices():
    return np.tile(np.eye(3), (4, 1, 1))


def outputs():
    return [np.zeros((4, 3, 2)), np.zeros((4, 3)), np.zeros(3)]


# Valid arguments of every function, made anew for each call: some are written to.
CALLS = {
    "eta": lambda isa: [*rows(isa), [linear_predictor(False)] * 2, np.zeros((N, 2), np.float32), np.zeros((N, 2))],
    "value_and_gradient": lambda isa: [
        *[*rows(isa), [linear_predictor(True)], "poisson"], np.ones(N), np.ones(N), np.zeros((N, 1))
    ],
    "pull_back": lambda isa: [*rows(isa), [linear_predictor(True)], np.ones((N, 1))],
    "column": lambda isa: [
        *[*rows(isa), [linear_predictor(False)], 1], np.ones(N), np.ones(N), np.zeros((N, WIDTH)), *column_sums()
    ],
    "curves": lambda isa: [isa, *curve_call((N, 1))],
    "curves, shares": lambda isa: [isa, *curve_call((N, 1, 3))],
    "block": lambda isa: [isa, *block_call()],
    "read_state": lambda isa: [isa, block_call()[0], list(ORDERS), np.zeros(N), np.zeros(N)],
    "state_size": lambda isa: [list(ORDERS), False],
    "inverses": lambda isa: [isa, matrices()],
    "chain": lambda isa: [isa, matrices(), np.ones((4, 3, 2)), np.ones(3), np.ones(3), np.ones(3), *outputs()],
    "encode_numbers": lambda isa: [np.linspace(0.0, 1.0, N), np.array([0.2, 0.7]), 3, np.zeros(N, np.uint8)],
    "multiply_add_rate": lambda isa: [isa, 1000],
    "instruction_sets": lambda isa: [],
    "compiler": lambda isa: [],
}  # fmt: skip

SCALARS = [None, True, -1, 0, 1, 2, 9, 255, 2**31 - 1, 2**31, 2**62, 2**63 - 1, 2**63, -(2**31) - 1, -(2**63), 0.5]
SCALARS += [np.nan, np.inf, "", "text", b"\xff", [], (), {}, [1], (1, 2), object()]
SCALARS += [np.zeros(0), np.zeros(3), np.array(1.0)]


def unaligned(array):
    """The same numbers at an address that is no multiple of their size."""
    memory = np.zeros(array.nbytes + 1, np.uint8)[1:]
    memory[:] = np.frombuffer(array.tobytes(), np.uint8)
    return memory.view(array.dtype).reshape(array.shape)


def frozen(array):
    array.flags.writeable = False
    return array


def damaged_arrays(array):
    """Arrays in the place of one: other shapes, types and layouts."""
    yield from (array[:-1], array[:0], np.concatenate([array, array[:1]]), array[np.newaxis], array.reshape(-1)[0])
    yield from (array.reshape(-1), np.zeros((0, *array.shape)), np.zeros((*array.shape, 0)), array[::-1], array[::2])
    yield from (np.asfortranarray(array), np.swapaxes(array, 0, -1), frozen(array.copy()), unaligned(array))
    yield np.broadcast_to(array.reshape(-1)[:1], array.shape)
    yield np.broadcast_to(array.reshape(-1)[:1], (2**40, *array.shape[1:]))
    if array.ndim > 1:
        yield np.zeros((*[0] * (array.ndim - 1), 2**40), array.dtype)
    kinds = ["int8", "int64", "uint8", "uint16", "uint32", "uint64"]
    kinds += ["float16", "float32", "float64", "bool", "complex128"]
    with np.errstate(all="ignore"):
        yield from (array.astype(kind) for kind in [*kinds, "object", "U4", array.dtype.newbyteorder()])
    if array.dtype.kind == "u":
        yield from (np.full_like(array, value) for value in (3, 254, np.iinfo(array.dtype).max))
        late = np.zeros_like(array)
        late[-1] = np.iinfo(array.dtype).max
        yield late
    else:
        yield from (np.full_like(array, value) for value in (np.nan, np.inf, -np.inf, -1.0, 0.0, 1e308))


def damaged(value):
    """Values in the place of one, and of every part of it."""
    yield from SCALARS
    if isinstance(value, np.ndarray):
        yield from damaged_arrays(value)
    if isinstance(value, (list, tuple)):
        kind = type(value)
        yield from (kind(value[:size]) for size in range(len(value)))
        yield from (kind([*value, *value[:1]]), kind(value[::-1]), kind(value * 50), tuple(value), list(value))
        for at, item in enumerate(value):
            for other in damaged(item):
                yield kind([*value[:at], other, *value[at + 1 :]])


def described(value):
    """Short, whatever it is."""
    if isinstance(value, np.ndarray):
        return f"{value.dtype}{value.shape}"
    if isinstance(value, (list, tuple)):
        return f"{type(value).__name__}({', '.join(described(item) for item in value[:8])})"
    return repr(value)


def damage(name, isa):
    """All calls with one argument damaged, then many with two."""
    function = getattr(_native, name.split(",")[0])
    function(*CALLS[name](isa))
    number = count()

    def attempt(arguments):
        print(name, next(number), described(arguments), flush=True)
        try:
            function(*arguments)
        except (ValueError, TypeError, MemoryError, OverflowError):
            return

    for at in range(len(CALLS[name](isa))):
        fresh = CALLS[name](isa)
        for other in damaged(fresh[at]):
            arguments = CALLS[name](isa)
            arguments[at] = other
            attempt(arguments)
    rng = np.random.default_rng(0)
    choices = [list(damaged(item)) for item in CALLS[name](isa)]
    for _ in range(300 if len(choices) > 1 else 0):
        arguments = CALLS[name](isa)
        for at in rng.choice(len(choices), 2, replace=False):
            arguments[at] = choices[at][rng.integers(len(choices[at]))]
        attempt(arguments)
    attempt([])


def main(isa):
    """Every function of the module."""
    for name in CALLS:
        damage(name, isa)
    print("done")


if __name__ == "__main__":
    main(*sys.argv[1:])

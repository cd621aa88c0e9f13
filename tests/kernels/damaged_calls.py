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
    factors = [
        (order, table, -np.ones(table.shape[1]), np.zeros_like(table) if with_sums else None) for order, table in tables
    ]
    return (0.5, rng.normal(size=rows), np.zeros(rows) if with_sums else None, factors)


def curve_call(shape):
    """A column of numbers, one of codes, one that is periodic."""
    rng = np.random.default_rng(2)
    columns = [rng.normal(size=N), codes()[0], rng.normal(size=(N, 2))[:, 0]]
    number = (np.array([-1.0, 0.0, 1.0]), np.ones(4), np.zeros(4), 3, 0.0, 0.0)
    cyclic = (np.array([0.25, 0.5]), np.ones(3), np.zeros(3), 1, 0.5, 2.0)
    rows = 5 * 4 + 3 + 4 * 2
    groups = [(order, rng.normal(size=(2, rows, 8)), np.ones((2, 8)), None) for order in (2, 3)]
    products = np.ones((1, 3, 8)), np.array([0.2, 0.8]), np.array([0.5, 0.5])
    groups.append((_native.PRODUCT, rng.normal(size=(1, rows, 8)), np.ones((1, 8)), products))
    return [columns, [number, 3, cyclic], [(0.0, rng.normal(size=rows), groups)], np.zeros(shape)]


def swap_call():
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


def product_state():
    """States without any column, of pairs and of product factors."""
    orders = [(2, 1), (_native.PRODUCT, 3)]
    numbers = _native.state_size(orders, True)
    return [np.zeros((-(-N // _native.STATE_BLOCK), _native.STATE_BLOCK * numbers)), N, orders]


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


def prior(kind, codes):
    """A Gaussian prior as the engine takes it; kinds are spline, random walk, iid and both."""
    m, n_lam = 2, [2, 2, 1, 3][kind]
    given = {"kind": kind, "low": np.full(n_lam, 1e-3), "high": np.full(n_lam, 1e6), "mass": np.full(codes, 1 / codes)}
    if kind in (0, 3):
        values = np.random.default_rng(4).normal(size=(codes, m))
        given |= {"values": values, "group": np.array([0.0, 1.0]), "relative_penalty": np.ones(m)}
        given["penalty"] = np.array([1.0, 0.0])
    if kind == 1:
        given |= {"edges": np.ones(codes - 1), "penalty_eigenvalues": np.ones(codes - 1)}
    if kind in (2, 3):
        given |= {"repeated": np.ones(codes), "prior_trace": codes - 1.0}
    return given


def solve_call(kind):
    """Two functions of a column with four codes."""
    m, n_lam = (2 if kind in (0, 3) else 0), [2, 2, 1, 3][kind]
    shapes = [(4, 2), (4, 2), (m, 2), (4, 2), (n_lam, 2), (n_lam, 2)]
    found = [np.zeros(shape) for shape in shapes]
    return [prior(kind, 4), np.tile(np.eye(2), (4, 1, 1)), np.ones((4, 2)), np.ones((n_lam, 2)), found]


ENGINE_SIZES = [4, 6]


def engine_call(kinds, ranks, n_eta, loss, tensor):
    """Two columns with priors of some kinds."""
    rng, width = np.random.default_rng(5), 1 + sum(rank for _, rank in ranks)
    n_lam, products = [[2, 2, 1, 3][kind] for kind in kinds], dict(ranks).get(_native.PRODUCT, 0)
    columns = [
        {
            "codes": rng.integers(0, size, N).astype(kind_of_code),
            "n_codes": size,
            "mass": np.full(size - 1, 1 / (size - 1)),
            "relative_bounds": np.full(size - 1, 3.0),
            "bounded": True,
            "left_out": np.arange(width - 1.0) == 1.0 if size > 4 else None,
            "main": prior(kind, size - 1),
            "factors": prior(kind, size - 1),
        }
        for size, kind, kind_of_code in zip(ENGINE_SIZES, kinds, (np.uint8, np.uint16), strict=True)
    ]
    shares = [
        [
            {
                "mean": rng.normal(size=(size, width)),
                "variance": np.ones((size, width)),
                "main_lam": np.ones(n),
                "lam": np.ones((n, width - 1)),
                "main_smooth": np.zeros(2 if kind in (0, 3) else 0),
                "main_per_code": np.zeros(size - 1),
                "smooth": np.zeros((2 if kind in (0, 3) else 0, width - 1)),
                "per_code": np.zeros((size - 1, width - 1)),
                "edf": np.zeros((n, width - 1)),
                "constants": np.ones(products),
                "solved": 0,
            }
            for size, kind, n in zip(ENGINE_SIZES, kinds, n_lam, strict=True)
        ]
        for _ in range(n_eta)
    ]
    strengths = {name: np.ones((2, 2)) if tensor else None for name in ("margin_lam", "null_lam")}
    etas = [
        {"columns": own, "coef": np.zeros(3), "lam": np.ones(2), "intercept": 0.1, "trace": 0.0, "edf": 1.0, "age": 0}
        | {"loadings": np.ones(products)}
        | {name: None if array is None else array.copy() for name, array in strengths.items()}
        for own in shares
    ]
    both = {name: np.zeros((N, n_eta)) for name in ("offset", "eta", "slope", "curvature", "variance")}
    given = {"y": rng.integers(0, max(n_eta, 2), N).astype(float), "weight": np.ones(N), "value": np.zeros(N), **both}
    mains = {"design": design_of(rng), "counts": np.array([2.0, 1.0]), "group": np.array([0.0, 0.0, 1.0])}
    mains |= {"relative_penalty": np.ones(3), "largest_lam": 1e8}
    return [True, given, columns, list(ranks), mains, etas, loss, None]


def design_of(rng):
    """Two columns of functions, one block each, and three coefficients."""
    return {
        "places": np.column_stack([rng.integers(0, 3, N), np.full(N, 5)]).astype(np.int32),
        "entries": rng.normal(size=(N, 2, 4)),
        "transform": rng.normal(size=(9, 3)),
        "parts": np.array([[0.0, 6.0, 0.0, 2.0], [5.0, 9.0, 2.0, 3.0]]),
        "centre": rng.normal(size=3),
    }


def run_engine(*arguments):
    """States and two sweeps, after the caller has let go of the arrays."""
    arguments = list(arguments)
    engine = _native.Engine(*arguments)
    count_of_etas, losses = len(arguments[6]), arguments[7] is not None
    arguments.clear()
    engine.threads = 2
    engine.build(0.5)
    for backwards in (False, True):
        engine.sweep(True, True, backwards, 0.0)
    if losses:
        engine.evaluate()
    return [engine.largest(), *(engine.linear_predictor(k) for k in range(count_of_etas))]


def shared_curves_call(kinds, ranks, n_classes):
    """Three classes that share curves of two columns; main effects of the second column are not in the design."""
    rng, n_factors = np.random.default_rng(6), sum(rank for _, rank in ranks)
    n_lam, n_smooth = [[2, 2, 1, 3][kind] for kind in kinds], [2 if kind in (0, 3) else 0 for kind in kinds]
    columns = []
    for j, (size, kind, kind_of_code) in enumerate(zip(ENGINE_SIZES, kinds, (np.uint8, np.uint16), strict=True)):
        main = {
            "prior": prior(kind, size - 1),
            "mean": np.zeros((size - 1, n_classes)),
            "variance": np.zeros((size - 1, n_classes)),
            "smooth": np.zeros((n_smooth[j], n_classes)),
            "per_code": np.zeros((size - 1, n_classes)),
            "lam": np.ones(n_lam[j]),
        }
        curves = {
            "factors": prior(kind, size - 1),
            "values": rng.normal(size=(size, n_factors)),
            "variance": np.ones((size, n_factors)),
            "lam": np.ones((n_lam[j], n_factors)),
            "form": np.zeros((n_lam[j], n_factors)),
            "smooth": np.zeros((n_smooth[j], n_factors)),
            "per_code": np.zeros((size - 1, n_factors)),
        }
        columns.append(
            {
                "codes": rng.integers(0, size, N).astype(kind_of_code),
                "n_codes": size,
                "mass": np.full(size - 1, 1 / (size - 1)),
                "bounded": True,
                "left_out": np.arange(n_factors) == 1.0 if j and _native.PRODUCT not in dict(ranks) else None,
                "main": main if j else None,
            }
            | (curves if n_factors else {})
        )
    given = {"y": rng.integers(0, n_classes, N).astype(float), "weight": np.ones(N), "offset": np.zeros((N, n_classes))}
    given |= {"eta": np.zeros((n_classes, N))}
    mains = {"design": rng.normal(size=(N, 3)), "group": np.array([-1.0, 0.0, 0.0]), "relative_penalty": np.ones(3)}
    mains |= {"coef": np.zeros((3, n_classes)), "lam": np.ones(1)}
    loadings = {"loadings": rng.normal(size=(n_factors, n_classes)), "loading_variance": np.ones(n_factors)}
    names = ("least_weight", "most_weight", "jitter", "smallest_lam", "largest_lam", "loading_lam", "relative_bounds")
    names += ("constant_precision", "least_product_scale")
    options = dict(zip(names, (1e-6, 0.5, 1e-8, 1e-3, 1e8, 1.0, 10.0, 0.1, 1e-3), strict=True))
    return [given, columns, list(ranks), mains, loadings, options]


def run_shared_curves(*arguments):
    """Main effects, then two sweeps, after the caller has let go of the arrays."""
    arguments = list(arguments)
    curves = _native.SharedCurves(*arguments)
    eta, has_factors = np.zeros(np.shape(arguments[1]["eta"])), bool(arguments[3])
    arguments.clear()
    curves.sweep_mains(True, False)
    if has_factors:
        curves.temper(0.5)
        for backwards in (False, True):
            curves.sweep(True, True, backwards, backwards)
    curves.read_eta(eta)
    return [curves.loss(True), eta]


def squares(eta):
    """A loss that is a function."""
    with np.errstate(all="ignore"):
        return (eta**2).sum(axis=1), 2.0 * eta, np.full_like(eta, 2.0)


FUNCTIONS = {"Engine": run_engine, "SharedCurves": run_shared_curves}

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
    "swap_columns": lambda isa: [isa, *swap_call()],
    "start_state": lambda isa: [isa, *product_state(), np.ones(3)],
    "read_state": lambda isa: [isa, swap_call()[0], list(ORDERS), np.zeros(N), np.zeros(N)],
    "state_size": lambda isa: [list(ORDERS), False],
    "inverses": lambda isa: [isa, matrices()],
    "code_sums": lambda isa: [
        isa,
        codes()[0],
        np.ones((N, 5)),
        np.ones(N),
        np.ones((N, 5)),
        np.zeros((SIZES[0], 5, 5)),
        np.zeros((SIZES[0], 5)),
    ],
    "chain": lambda isa: [isa, matrices(), np.ones((4, 3, 2)), np.ones(3), np.ones(3), np.ones(3), *outputs()],
    "design_times": lambda isa: [isa, design_of(np.random.default_rng(0)), np.ones(3), np.zeros(N)],
    "design_sums": lambda isa: [
        isa,
        design_of(np.random.default_rng(0)),
        np.ones(N),
        np.ones(N),
        np.zeros(3),
        np.zeros((3, 3)),
        None,
    ],
    "weighted_grams": lambda isa: [isa, np.ones((N, 3)), np.ones((2, N)), np.zeros((2, 3, 3)), None],
    "solve_prior": lambda isa: [isa, *solve_call(0)],
    "solve_prior, random walk": lambda isa: [isa, *solve_call(1)],
    "solve_prior, iid": lambda isa: [isa, *solve_call(2)],
    "solve_prior, spline and iid": lambda isa: [isa, *solve_call(3)],
    "ThreadBudget": lambda isa: [4],
    "Engine": lambda isa: [isa, *engine_call((0, 2), [(2, 3)], 1, None, True)],
    "Engine, classes": lambda isa: [isa, *engine_call((1, 3), [(2, 2), (3, 1)], 2, (5, 0.0), False)],
    "Engine, products": lambda isa: [isa, *engine_call((0, 3), [(2, 1), (_native.PRODUCT, 3)], 1, None, False)],
    "Engine, a function": lambda isa: [isa, *engine_call((0, 1), [(2, 2)], 1, squares, False)],
    "SharedCurves": lambda isa: [isa, *shared_curves_call((0, 2), [(2, 3)], 3)],
    "SharedCurves, triples": lambda isa: [isa, *shared_curves_call((1, 3), [(2, 2), (3, 1)], 4)],
    "SharedCurves, products": lambda isa: [
        isa,
        *shared_curves_call((0, 2), [(2, 1), (_native.PRODUCT, 2)], 3),
    ],
    "SharedCurves, main effects": lambda isa: [isa, *shared_curves_call((3, 0), [], 3)],
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
    if array.size == 0:
        yield from (np.zeros((*array.shape[:-1], 5)), np.zeros((3, *array.shape[1:])), np.zeros((0, *array.shape)))
        return
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
    if isinstance(value, dict):
        yield from ({name: item for name, item in value.items() if name != left_out} for left_out in value)
        for name, item in value.items():
            yield from ({**value, name: other} for other in damaged(item))
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
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name}: {described(item)}" for name, item in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return f"{type(value).__name__}({', '.join(described(item) for item in value[:8])})"
    return repr(value)


def damage(name, isa):
    """All calls with one argument damaged, then many with two."""
    own = name.split(",")[0]
    function = FUNCTIONS.get(own, getattr(_native, own))
    function(*CALLS[name](isa))
    number = count()

    def attempt(arguments):
        print(name, next(number), described(arguments), flush=True)
        try:
            function(*arguments)
        except (ValueError, TypeError, MemoryError, ArithmeticError):
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

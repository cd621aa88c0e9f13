"""Types of the compiled module (src/native/module.cpp)."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

_Floats = NDArray[np.float64]
_LinearPredictor = tuple[float, _Floats, _Floats | None, list[tuple[int, _Floats, _Floats, _Floats | None]]]

def instruction_sets() -> list[str]: ...
def compiler() -> str: ...
def eta(
    isa: str,
    float64: bool,
    codes: list[NDArray[Any]],
    sizes: list[int],
    linear_predictors: list[_LinearPredictor],
    offset: NDArray[Any] | None,
    out: _Floats,
) -> None: ...
def value_and_gradient(
    isa: str,
    float64: bool,
    codes: list[NDArray[Any]],
    sizes: list[int],
    linear_predictors: list[_LinearPredictor],
    loss: str,
    y: NDArray[Any] | None,
    weight: NDArray[Any] | None,
    offset: NDArray[Any] | None,
) -> tuple[float, list[float]]: ...
def pull_back(
    isa: str,
    float64: bool,
    codes: list[NDArray[Any]],
    sizes: list[int],
    linear_predictors: list[_LinearPredictor],
    g: _Floats,
) -> list[float]: ...
def column(
    isa: str,
    float64: bool,
    codes: list[NDArray[Any]],
    sizes: list[int],
    linear_predictor: list[_LinearPredictor],
    which: int,
    g: _Floats | None,
    h: _Floats | None,
    u: _Floats | None,
    g_sums: _Floats | None,
    h_sums: _Floats | None,
) -> None: ...

CURVE_LANES: int
_Products = tuple[_Floats, _Floats, _Floats]

def curves(
    isa: str,
    columns: list[NDArray[Any]],
    places: list[tuple[_Floats, _Floats, _Floats, int, float, float] | int],
    linear_predictors: list[tuple[float, _Floats, list[tuple[int, _Floats, _Floats, _Products | None]]]],
    out: _Floats,
) -> None: ...
def encode_numbers(values: _Floats, edges: _Floats, missing: int, out: NDArray[Any]) -> None: ...
def multiply_add_rate(isa: str, repeats: int) -> float: ...

_Moments = tuple[int, NDArray[Any], _Floats, _Floats]

CONSTANTS: dict[str, float | list[float]]
PRODUCT: int
MAX_STATE_ORDER: int
STATE_BLOCK: int
STATE_HEAD: int

def state_size(ranks: list[tuple[int, int]], float64: bool) -> int: ...
def start_state(isa: str, state: NDArray[Any], n: int, ranks: list[tuple[int, int]], loadings: _Floats) -> None: ...
def swap_columns(
    isa: str,
    state: NDArray[Any],
    n: int,
    ranks: list[tuple[int, int]],
    add_column: _Moments | None,
    remove_column: _Moments | None,
    gram: _Floats | None,
    rhs: _Floats | None,
) -> None: ...
def read_state(
    isa: str, state: NDArray[Any], ranks: list[tuple[int, int]], mean: _Floats, variance: _Floats
) -> None: ...
def inverses(isa: str, matrices: _Floats) -> None: ...
def chain(
    isa: str,
    gram: _Floats,
    rhs: _Floats,
    edges: _Floats,
    lam_difference: _Floats,
    lam_value: _Floats,
    mean: _Floats,
    variance: _Floats,
    differences: _Floats,
) -> None: ...
def code_sums(
    isa: str,
    codes: NDArray[Any],
    slopes: _Floats,
    weight: _Floats,
    weighted_response: _Floats,
    gram: _Floats,
    rhs: _Floats,
) -> None: ...
def solve_prior(
    isa: str, prior: dict[str, Any], gram: _Floats, rhs: _Floats, lam: _Floats, outputs: list[_Floats]
) -> bool: ...
def weighted_grams(isa: str, design: _Floats, weights: _Floats, out: _Floats, budget: ThreadBudget | None) -> None: ...
def design_times(isa: str, design: dict[str, Any], coef: _Floats, out: _Floats) -> None: ...
def design_sums(
    isa: str,
    design: dict[str, Any],
    x: _Floats | None,
    weight: _Floats | None,
    sums: _Floats | None,
    gram: _Floats | None,
    budget: ThreadBudget | None,
) -> None: ...

class ThreadBudget:
    def __init__(self, count: int, jobs: int = 0) -> None: ...
    def begin_job(self) -> None: ...
    def occupy(self, count: int) -> None: ...
    @property
    def free(self) -> int: ...

class SharedCurves:
    def __init__(
        self,
        isa: str,
        rows: dict[str, Any],
        columns: list[Any],
        ranks: list[tuple[int, int]],
        mains: dict[str, Any],
        factors: dict[str, Any],
        options: Mapping[str, float],
    ) -> None: ...
    def sweep_mains(self, learn: bool, bound: bool) -> None: ...
    def sweep(self, learn: bool, bound: bool, backwards: bool, rebuilt: bool) -> None: ...
    def temper(self, tempering: float) -> None: ...
    def loss(self, bound: bool) -> float: ...
    def read_eta(self, out: _Floats) -> None: ...

class Engine:
    noise: float
    use_majorant: bool
    majorises: bool
    threads: int
    damped: int
    def __init__(
        self,
        isa: str,
        float64: bool,
        rows: dict[str, Any],
        columns: list[Any],
        ranks: list[tuple[int, int]],
        mains: dict[str, Any],
        etas: list[Any],
        loss: Any,
        majorant: Any,
    ) -> None: ...
    def build(self, tempering: float) -> bool: ...
    def sweep(self, update_lam: bool, update_main_lam: bool, backwards: bool, floor: float) -> bool: ...
    def evaluate(self) -> None: ...
    def linear_predictor(self, k: int) -> tuple[float, float, float, int, list[int]]: ...
    def set_loss(self, loss: Any) -> None: ...
    def set_stop(self, stop: Any) -> None: ...
    def set_budget(self, budget: ThreadBudget | None) -> None: ...
    def trace_regions(self, wanted: bool) -> None: ...
    def region_seconds(self) -> list[float]: ...
    def largest(self) -> float: ...

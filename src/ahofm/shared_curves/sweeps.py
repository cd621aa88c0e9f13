"""Sweeps of a fit with shared curves: in C++ without Python's lock, or the steps of this package in NumPy.

The compiled sweeps (src/native/shared_curves.cpp) do what ``main_effects`` and ``factors`` do, with the same formulas:
contract tests compare the two. Priors of a user's own, and orders that they do not have, take the reference.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from ahofm.backends.cpu import PRIORS, engine_prior
from ahofm.columns.basis import Floats
from ahofm.kernels import MAX_STATE_ORDER
from ahofm.kernels.native import INSTRUCTION_SETS, contiguous
from ahofm.kernels.native_engine import NativeSharedCurves
from ahofm.orders import PRODUCT
from ahofm.priors.arrays import coordinate_count, prior_arrays, prior_kind
from ahofm.priors.base import FunctionPosterior, Prior
from ahofm.priors.spline import SplinePrior
from ahofm.shared_curves.columns import ClassColumn
from ahofm.shared_curves.factors import SharedColumn
from ahofm.shared_curves.main_effects import ClassMains, JointDesign
from ahofm.shared_curves.problem import ClassProblem, ClassState
from ahofm.tuning import REBUILD_SWEEPS, SPLINE_JITTER
from ahofm.tuning.classes import (
    CLASS_CONSTANT_PRECISION,
    LARGEST_CLASS_LAM,
    LARGEST_CLASS_VALUE,
    LEAST_CLASS_PRODUCT_SCALE,
    LEAST_CLASS_WEIGHT,
    LOADING_LAM,
    MOST_CLASS_WEIGHT,
    SMALLEST_CLASS_LAM,
)


class Sweeps(Protocol):
    """Sweeps over main effects, curves and loadings, from a state that they take over."""

    def sweep_mains(self, *, update_lam: bool, bound: bool = False) -> None:
        """One step of all main effects, ``update_lam``: and of smoothing parameters; ``bound``: with that bound."""
        ...

    def sweep(self, number: int, *, update_lam: bool, bound: bool = False) -> None:
        """Sweep ``number``: main effects, the curves of every column, back and forth, and the loadings."""
        ...

    def temper(self, tempering: float) -> None:
        """Use the variances of partners in pairs and triples, multiplied by the tempering, from now on."""
        ...

    def loss(self, *, bound: bool = False) -> float:
        """Sum of the losses; ``bound`` as in the sweep that follows, whose weights may be computed at the same time."""
        ...

    def state(self) -> ClassState:
        """As it is; later sweeps may change it."""
        ...


def sweeps_of(problem: ClassProblem, design: JointDesign, state: ClassState) -> Sweeps:
    """Compiled sweeps where they have all priors and orders, otherwise those of the reference."""
    separate = _separate_columns(problem, design)
    priors: list[Prior] = [problem.columns[j].priors.main for j in separate]
    orders: list[int] = []
    if state.factors is not None:
        priors += [column.priors.factors for column in problem.columns]
        orders = list(state.factors.ranks)
    if (
        problem.compiled
        and all(prior_kind(prior) in PRIORS for prior in priors)
        and max([2, *(order for order in orders if order != PRODUCT)]) <= MAX_STATE_ORDER
    ):
        return CompiledSweeps(problem, design, state)
    return ReferenceSweeps(problem, design, state)


class ReferenceSweeps:
    """The steps of this package, in NumPy."""

    def __init__(self, problem: ClassProblem, design: JointDesign, state: ClassState) -> None:
        """From that state, which is changed."""
        self._problem, self._design, self._state = problem, design, state
        self._separate = _separate_columns(problem, design)

    def sweep_mains(self, *, update_lam: bool, bound: bool = False) -> None:
        """Smooth main effects jointly, then the others."""
        rows, state = self._problem.rows, self._state
        working = rows.working_response(state.eta, bound=bound)
        state.eta = state.eta + state.mains.smooth_step(self._design, working, update_lam=update_lam)
        for j in self._separate:
            working = rows.working_response(state.eta, bound=bound)
            column, coded = self._problem.columns[j], self._problem.coded[j]
            state.eta = state.eta + state.mains.column_step(j, column, coded, working, update_lam=update_lam)

    def sweep(self, number: int, *, update_lam: bool, bound: bool = False) -> None:
        """Main effects, curves, loadings."""
        rows, state, factors = self._problem.rows, self._state, self._state.factors
        assert factors is not None
        self.sweep_mains(update_lam=True, bound=bound)
        order = range(len(self._problem.columns))
        for j in order if number % 2 == 0 else reversed(order):
            working = rows.working_response(state.eta, bound=bound)
            state.eta = state.eta + factors.column_step(j, working, update_lam=update_lam)
        if number % REBUILD_SWEEPS == REBUILD_SWEEPS - 1:
            factors.rebuild()
        state.eta = state.eta + factors.loading_step(rows.working_response(state.eta, bound=bound))

    def temper(self, tempering: float) -> None:
        """Use variances."""
        assert self._state.factors is not None
        self._state.factors.temper(tempering)

    def loss(self, *, bound: bool = False) -> float:
        """Sum of the losses."""
        return self._problem.rows.loss(self._state.eta)

    def state(self) -> ClassState:
        """As it is."""
        return self._state


class CompiledSweeps:
    """The same in C++, on arrays that it changes in place."""

    def __init__(self, problem: ClassProblem, design: JointDesign, state: ClassState) -> None:
        """From a copy of the main effects; factors are changed."""
        rows, factors = problem.rows, state.factors
        self._problem, self._factors = problem, factors
        self._coef, self._lam = np.array(state.mains.coef, order="C"), state.mains.lam.copy()
        self._mains = {
            j: _main_arrays(problem.columns[j], state.mains, j, problem.coded[j].n_codes - 1, rows.n_classes)
            for j in _separate_columns(problem, design)
        }
        loadings = np.zeros((0, rows.n_classes)) if factors is None else np.array(factors.loadings, order="C")
        variance = np.zeros(0) if factors is None else factors.loading_variance.copy()
        self._loadings, self._loading_variance = loadings, variance
        self._curves: list[dict[str, Any]] = []
        if factors is not None:
            pairs = zip(problem.columns, factors.columns, strict=True)
            self._curves = [_curve_arrays(column, curves) for column, curves in pairs]
        self._native = NativeSharedCurves(
            INSTRUCTION_SETS[-1],
            {
                "y": rows.y.astype(np.float64),
                "weight": contiguous(rows.weight),
                "offset": None if rows.offset is None else np.ascontiguousarray(rows.offset.T),
                "eta": contiguous(state.eta),
            },
            [self._column(j) for j in range(len(problem.columns))],
            [] if factors is None else list(factors.ranks.items()),
            {
                "design": contiguous(design.matrix),
                "group": design.group.astype(np.float64),
                "relative_penalty": design.relative_penalty,
                "coef": self._coef,
                "lam": self._lam,
            },
            {"loadings": loadings, "loading_variance": variance},
            _OPTIONS,
        )

    def _column(self, j: int) -> dict[str, Any]:
        column, coded, factors = self._problem.columns[j], self._problem.coded[j], self._factors
        spec: dict[str, Any] = {
            "codes": contiguous(coded.codes),
            "n_codes": coded.n_codes,
            "mass": column.priors.mass,
            "bounded": column.priors.saturated,
            "left_out": None if factors is None else factors.left_out(j),
            "main": self._mains.get(j),
        }
        return spec if factors is None else spec | self._curves[j]

    def sweep_mains(self, *, update_lam: bool, bound: bool = False) -> None:
        """Smooth main effects jointly, then the others."""
        self._native.sweep_mains(update_lam, bound)

    def sweep(self, number: int, *, update_lam: bool, bound: bool = False) -> None:
        """Main effects, curves, loadings."""
        self._native.sweep(update_lam, bound, number % 2 == 1, number % REBUILD_SWEEPS == REBUILD_SWEEPS - 1)

    def temper(self, tempering: float) -> None:
        """Use variances."""
        self._native.temper(tempering)

    def loss(self, *, bound: bool = False) -> float:
        """Sum of the losses."""
        return float(self._native.loss(bound))

    def state(self) -> ClassState:
        """With the arrays that later sweeps change."""
        rows = self._problem.rows
        eta = np.empty((rows.n_classes, rows.n_rows))
        self._native.read_eta(eta)
        mains = ClassMains(self._coef, self._lam)
        for j, arrays in self._mains.items():
            mains.posteriors[j] = _posterior(self._problem.columns[j].priors.main, arrays, per_code=True)
            mains.column_lam[j] = np.tile(arrays["lam"][:, np.newaxis], rows.n_classes)
        factors = self._factors
        if factors is not None:
            columns = []
            for column, arrays in zip(self._problem.columns, self._curves, strict=True):
                posterior = _posterior(column.priors.factors, arrays, per_code=column.priors.saturated)
                posterior = replace(posterior, mean=factors.without_constants(arrays["values"]))
                columns.append(SharedColumn(arrays["values"], arrays["variance"], arrays["lam"], posterior))
            factors.take(columns, self._loadings, self._loading_variance)
        return ClassState(mains, factors, eta)


_OPTIONS: Mapping[str, float] = {
    "least_weight": LEAST_CLASS_WEIGHT,
    "most_weight": MOST_CLASS_WEIGHT,
    "jitter": SPLINE_JITTER,
    "smallest_lam": SMALLEST_CLASS_LAM,
    "largest_lam": LARGEST_CLASS_LAM,
    "loading_lam": LOADING_LAM,
    "relative_bounds": LARGEST_CLASS_VALUE,
    "constant_precision": CLASS_CONSTANT_PRECISION,
    "least_product_scale": LEAST_CLASS_PRODUCT_SCALE,
}


def _separate_columns(problem: ClassProblem, design: JointDesign) -> list[int]:
    """Columns whose main effects are not in the joint design."""
    seen = set(design.columns.tolist())
    return [j for j in range(len(problem.columns)) if j not in seen]


def _main_arrays(column: ClassColumn, mains: ClassMains, j: int, codes: int, n_classes: int) -> dict[str, Any]:
    """Main effects of a column in all classes, as arrays of their own."""
    prior, before, lam = column.priors.main, mains.posteriors.get(j), mains.column_lam.get(j)
    arrays: dict[str, Any] = {
        "prior": engine_prior(prior_arrays(prior)),
        "mean": np.zeros((codes, n_classes)),
        "variance": np.zeros((codes, n_classes)),
        "smooth": np.zeros((coordinate_count(prior), n_classes)),
        "per_code": np.zeros((codes, n_classes)),
        "lam": prior.initial_lam(1.0) if lam is None else lam[:, 0].copy(),
    }
    if before is not None:
        arrays["mean"][...] = before.mean
    return arrays


def _curve_arrays(column: ClassColumn, curves: SharedColumn) -> dict[str, Any]:
    """Curves of a column, as arrays of their own."""
    prior, (size, width) = column.priors.factors, curves.values.shape
    return {
        "factors": engine_prior(prior_arrays(prior)),
        "values": np.array(curves.values, order="C"),
        "variance": np.array(curves.variance, order="C"),
        "lam": np.array(curves.lam, order="C"),
        "form": np.zeros((prior.n_groups, width)),
        "smooth": np.zeros((coordinate_count(prior), width)),
        "per_code": np.zeros((size - 1, width)),
    }


def _posterior(prior: Prior, arrays: Mapping[str, Any], *, per_code: bool) -> FunctionPosterior:
    """Posterior of functions from the arrays of a sweep; ``per_code``: bounds may have moved values of splines."""
    values: Floats = arrays["mean"] if "mean" in arrays else arrays["values"][:-1]
    variance: Floats = arrays["variance"][: len(values)]
    has_per_code = not isinstance(prior, SplinePrior) or (per_code and "values" in arrays)
    form = arrays.get("form", np.zeros((prior.n_groups, values.shape[1])))
    smooth = arrays["smooth"] if coordinate_count(prior) else None
    return FunctionPosterior(
        values, variance, smooth, arrays["per_code"] if has_per_code else None, np.zeros_like(form), form
    )

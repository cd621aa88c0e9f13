"""One fit with shared curves: main effects first, then sweeps over columns and loadings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ahofm.class_tuning import (
    LEARNING_FROM,
    LEAST_LOADING,
    LEAST_TEMPERING_LOSS,
    MAIN_CLASS_STEPS,
    MAIN_CLASS_TOL,
    SHARED_TOL,
    SHARED_WARM_SWEEPS,
)
from ahofm.columns.basis import Floats
from ahofm.fit.solvers.shared.class_rows import ClassRows
from ahofm.fit.solvers.shared.columns import ClassColumn, CodedColumn
from ahofm.fit.solvers.shared.factors import SharedFactors, random_curves
from ahofm.fit.solvers.shared.main_effects import ClassMains, JointDesign
from ahofm.fit.solvers.shared.polynomials import Polynomials
from ahofm.priors.base import FunctionPosterior
from ahofm.tuning import REBUILD_SWEEPS

Report = Callable[[float], bool]
"""Told the mean loss after every sweep; whether to stop."""


@dataclass(frozen=True)
class Recipe:
    """How curves are fitted after main effects.

    Attributes
    ----------
    ranks : dict of order to rank
    sweeps : int
        At most.
    learned : bool
        Whether smoothing parameters are learned; otherwise they stay, and few sweeps keep curves from following noise.
    tempering : float or None
        Degree to which the variance of partners counts in learned fits; None: by what main effects leave.
    """

    ranks: Mapping[int, int]
    sweeps: int
    learned: bool
    tempering: float | None = None


@dataclass(frozen=True)
class ClassProblem:
    """Rows and columns of a fit."""

    rows: ClassRows
    columns: Sequence[ClassColumn]
    coded: Sequence[CodedColumn]

    def take(self, rows: NDArray[np.int64]) -> ClassProblem:
        """Some of the rows."""
        return ClassProblem(self.rows.take(rows), self.columns, [own.take(rows) for own in self.coded])


@dataclass
class ClassState:
    """Main effects, factors, and linear predictors (K, n) without offsets."""

    mains: ClassMains
    factors: SharedFactors | None
    eta: Floats


def fit_mains(problem: ClassProblem, joint: JointDesign, report: Report) -> ClassState:
    """Main effects with learned smoothing parameters, until the loss settles."""
    rows = problem.rows
    coef = np.zeros((joint.design.shape[1], rows.n_classes))
    coef[0] = rows.constants()
    state = ClassState(
        ClassMains(coef, joint.first_lam(problem.columns)), None, np.tile(coef[0][:, np.newaxis], rows.n_rows)
    )
    before = np.inf
    for step in range(MAIN_CLASS_STEPS):
        main_sweep(problem, joint, state, learn=step >= LEARNING_FROM)
        loss = rows.loss(state.eta) / rows.total
        if report(loss) or (step > 2 * LEARNING_FROM and abs(before - loss) < MAIN_CLASS_TOL * max(loss, 0.02)):
            break
        before = loss
    return state


def main_sweep(
    problem: ClassProblem, joint: JointDesign, state: ClassState, *, learn: bool, bound: bool = False
) -> None:
    """One step of all main effects."""
    rows, mains = problem.rows, state.mains
    state.eta = state.eta + mains.joint_step(joint, rows.work(state.eta, bound=bound), learn=learn)
    seen = set(joint.columns.tolist())
    for j, (column, coded) in enumerate(zip(problem.columns, problem.coded, strict=True)):
        if j not in seen:
            work = rows.work(state.eta, bound=bound)
            state.eta = state.eta + mains.column_step(j, column, coded, work, learn=learn)


def tempering_of(problem: ClassProblem, eta: Floats) -> float:
    """The cube of the fraction of the classes' deviance that main effects leave: noisy classes need much of it."""
    rows = problem.rows
    constant = rows.loss(np.tile(rows.constants()[:, np.newaxis], rows.n_rows))
    return float(min(max(rows.loss(eta), 0.0) / max(constant, LEAST_TEMPERING_LOSS), 1.0) ** 3)


def fit_factors(
    problem: ClassProblem, joint: JointDesign, start: ClassState, recipe: Recipe, seed: int, report: Report
) -> ClassState:
    """Sweeps over main effects, all columns' curves and the loadings, from random curves."""
    rows, columns = problem.rows, problem.columns
    rng = np.random.default_rng(seed)
    curves = random_curves(columns, sum(recipe.ranks.values()), rng)
    factors = SharedFactors(recipe.ranks, columns, problem.coded, curves)
    factors.start_loadings(rows, start.eta, LEAST_LOADING)
    state = ClassState(start.mains.copy(), factors, start.eta + factors.eta())
    tempering = 0.0
    if recipe.learned:
        tempering = tempering_of(problem, start.eta) if recipe.tempering is None else recipe.tempering
    before, small = np.inf, 0
    for sweep in range(recipe.sweeps):
        learn = recipe.learned and sweep >= SHARED_WARM_SWEEPS
        if learn and sweep == SHARED_WARM_SWEEPS:
            factors.temper(tempering)
        shared_sweep(problem, joint, state, sweep, learn=learn, bound=False)
        loss = rows.loss(state.eta) / rows.total
        small = small + 1 if abs(before - loss) < SHARED_TOL * max(loss, 0.02) else 0
        if report(loss) or (small >= 3 and sweep > SHARED_WARM_SWEEPS + 8):
            break
        before = loss
    return state


def shared_sweep(
    problem: ClassProblem, joint: JointDesign, state: ClassState, sweep: int, *, learn: bool, bound: bool
) -> None:
    """Main effects, the curves of every column, back and forth, and the loadings."""
    rows, factors = problem.rows, state.factors
    assert factors is not None
    main_sweep(problem, joint, state, learn=True, bound=bound)
    order = range(len(problem.columns))
    for j in order if sweep % 2 == 0 else reversed(order):
        state.eta = state.eta + factors.column_step(j, rows.work(state.eta, bound=bound), learn=learn)
    if sweep % REBUILD_SWEEPS == REBUILD_SWEEPS - 1:
        factors.rebuild()
    state.eta = state.eta + factors.loading_step(rows.work(state.eta, bound=bound))


@dataclass(frozen=True)
class ClassFit:
    """What a fit has found, in the codebooks' bases.

    Attributes
    ----------
    ranks : dict of order to rank
    intercepts : array of shape (K,)
    mains : tuple of (array of shape (functions, K), array of shape (K,)), one per column
        Coefficients and centrings of main effects of all classes.
    factors : tuple of (array of shape (functions, factors), array of shape (factors,)), one per column
        Of the shared curves.
    loadings : array of shape (factors, K)
    values : tuple of arrays of shape (codes + 1, K + factors), one per column
        Main effects and curves at the codes.
    """

    ranks: Mapping[int, int]
    intercepts: Floats
    mains: tuple[tuple[Floats, Floats], ...]
    factors: tuple[tuple[Floats, Floats], ...]
    loadings: Floats
    values: tuple[Floats, ...]

    @classmethod
    def of(cls, problem: ClassProblem, joint: JointDesign, state: ClassState) -> ClassFit:
        """From the state at the end."""
        factors, n_classes = state.factors, problem.rows.n_classes
        width = 0 if factors is None else sum(factors.ranks.values())
        mains, shared, values = [], [], []
        for j, column in enumerate(problem.columns):
            main = _main(joint, state.mains, j, column, n_classes)
            mains.append(column.in_basis(main, main=True))
            codes, posterior = len(main.mean), None if factors is None else factors.columns[j].posterior
            if posterior is None:
                shared.append((np.zeros((column.priors.book.size, width)), np.zeros(width)))
                curve = np.zeros((codes, width))
            else:
                shared.append(column.in_basis(posterior, main=False))
                curve = posterior.mean
            own = np.hstack([main.mean, curve])
            values.append(np.vstack([own, np.zeros((1, own.shape[1]))]))
        ranks = {} if factors is None else factors.ranks
        loadings = np.zeros((0, n_classes)) if factors is None else factors.loadings
        return cls(ranks, state.mains.coef[0].copy(), tuple(mains), tuple(shared), loadings, tuple(values))

    def eta(self, coded: Sequence[CodedColumn]) -> Floats:
        """Linear predictors at coded rows, (K, n)."""
        n_classes = len(self.intercepts)
        rows = [values[own.codes] for values, own in zip(self.values, coded, strict=True)]
        total = self.intercepts + np.sum([own[:, :n_classes] for own in rows], axis=0)
        start = 0
        for order, rank in self.ranks.items():
            part = slice(n_classes + start, n_classes + start + rank)
            terms = Polynomials(order, [own[:, part] for own in rows]).terms
            total = total + terms @ self.loadings[start : start + rank]
            start += rank
        return np.ascontiguousarray(total.T)


def _main(joint: JointDesign, mains: ClassMains, j: int, column: ClassColumn, n_classes: int) -> FunctionPosterior:
    """Main effects of a column in all classes."""
    if j in mains.posteriors:
        return mains.posteriors[j]
    coef = mains.coef[joint.columns == j]
    values = column.coordinates @ coef
    none = np.zeros((0, n_classes))
    return FunctionPosterior(values, np.zeros_like(values), coef, None, none, none)

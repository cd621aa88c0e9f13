"""One fit with shared curves: main effects first, then sweeps over columns and loadings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ahofm.columns.basis import Floats
from ahofm.orders import PRODUCT, Orders
from ahofm.shared_curves.factors import SharedFactors
from ahofm.shared_curves.main_effects import ClassMains, JointDesign
from ahofm.shared_curves.problem import ClassProblem, ClassState
from ahofm.shared_curves.starts import random_start
from ahofm.shared_curves.sweeps import sweeps_of
from ahofm.shared_curves.triples import start_triples
from ahofm.training.runner import Job, Report
from ahofm.tuning import CONVERGED_SWEEPS
from ahofm.tuning.classes import (
    FIRST_LEARNING_STEP,
    LEAST_CLASS_LOSS,
    LEAST_LOADING,
    LEAST_TEMPERING_LOSS,
    MAIN_CLASS_STEPS,
    MAIN_CLASS_TOL,
    MOST_LOSS_RATIO,
    PRODUCT_TEMPERING_POWER,
    SHARED_FEWEST_SWEEPS,
    SHARED_TOL,
    SHARED_WARM_SWEEPS,
)

Watch = Callable[[int, ClassState], bool]
"""Called after each sweep with the number of sweeps and the state; returns whether to stop."""


@dataclass(frozen=True)
class CurveSettings:
    """Settings of a fit of curves and loadings, after main effects.

    Attributes
    ----------
    ranks : dict of order to rank
    sweeps : int
        Largest number of sweeps.
    learned : bool
        Whether smoothing parameters are learned; otherwise they are fixed, and early stopping prevents overfitting.
    tempering : float or None
        Fraction of the variance of partners in fits with learned smoothing parameters; None: by ``tempering_of``, of
        product factors its square.
    tol : float
        Learned fits end after three sweeps that change the loss by less than this fraction.
    """

    ranks: Mapping[int, int]
    sweeps: int
    learned: bool
    tempering: float | None = None
    tol: float = SHARED_TOL


def fit_mains(problem: ClassProblem, design: JointDesign, report: Report) -> ClassState:
    """Main effects with learned smoothing parameters, until the loss converges."""
    rows = problem.rows
    coef = np.zeros((design.matrix.shape[1], rows.n_classes))
    coef[0] = rows.constants()
    mains = ClassMains(coef, design.first_lam(problem.columns))
    sweeps = sweeps_of(problem, design, ClassState(mains, None, np.tile(coef[0][:, np.newaxis], rows.n_rows)))
    before = np.inf
    for step in range(MAIN_CLASS_STEPS):
        sweeps.sweep_mains(update_lam=step >= FIRST_LEARNING_STEP)
        loss = sweeps.loss() / rows.total
        converged = abs(before - loss) < MAIN_CLASS_TOL * max(loss, LEAST_CLASS_LOSS)
        if report(loss) or (converged and step > 2 * FIRST_LEARNING_STEP):
            break
        before = loss
    return sweeps.state()


def main_effects_job(problem: ClassProblem, design: JointDesign) -> Job:
    """:func:`fit_mains` of these rows, as a job of a runner."""
    return lambda report: fit_mains(problem, design, report)


def tempering_of(problem: ClassProblem, eta: Floats) -> float:
    """Tempering: the cubed ratio of the deviance of main effects to that of constants."""
    rows = problem.rows
    constant = rows.loss(np.tile(rows.constants()[:, np.newaxis], rows.n_rows))
    return float(min(max(rows.loss(eta), 0.0) / max(constant, LEAST_TEMPERING_LOSS), 1.0) ** 3)


def fit_factors(
    problem: ClassProblem,
    design: JointDesign,
    start: ClassState,
    curve_settings: CurveSettings,
    seed: Sequence[int] | int,
    report: Report,
    watch: Watch | None = None,
) -> ClassState:
    """Sweeps over main effects, all columns' curves and the loadings, from random curves.

    Parameters
    ----------
    problem, design : ClassProblem, JointDesign
    start : ClassState
        Main effects; it is not changed.
    curve_settings : CurveSettings
    seed : int or sequence of int
    report : function of the mean loss after a sweep
        Sweeps end when it returns True.
    watch : function of the number of sweeps made and the state, optional
        Likewise.
    """
    rows, columns = problem.rows, problem.columns
    curves, constants = random_start(columns, curve_settings.ranks, np.random.default_rng(seed))
    if 3 in curve_settings.ranks and (problem.groups is None or problem.groups.groups is None):
        at = Orders(curve_settings.ranks).factor_slices[3]
        start_triples(curves, at, columns, problem.coded, rows.working_response(start.eta))
    factors = SharedFactors(curve_settings.ranks, columns, problem.coded, curves, problem.groups, constants)
    factors.start_loadings(rows, start.eta, LEAST_LOADING)
    sweeps = sweeps_of(problem, design, ClassState(start.mains.copy(), factors, start.eta + factors.eta()))
    tempering = 0.0
    if curve_settings.learned:
        power = PRODUCT_TEMPERING_POWER if PRODUCT in curve_settings.ranks else 1
        automatic = tempering_of(problem, start.eta) ** power
        tempering = automatic if curve_settings.tempering is None else curve_settings.tempering
    before, unchanged, bound = np.inf, 0, False
    for sweep in range(curve_settings.sweeps):
        update_lam = curve_settings.learned and sweep >= SHARED_WARM_SWEEPS
        if update_lam and sweep == SHARED_WARM_SWEEPS:
            sweeps.temper(tempering)
        sweeps.sweep(sweep, update_lam=update_lam, bound=bound)
        loss = sweeps.loss(bound=bound) / rows.total
        bound = bound or loss > MOST_LOSS_RATIO * before
        unchanged = unchanged + 1 if abs(before - loss) < curve_settings.tol * max(loss, LEAST_CLASS_LOSS) else 0
        stop = report(loss)
        if watch is not None:
            stop = watch(sweep + 1, sweeps.state()) or stop
        if stop or (curve_settings.learned and unchanged >= CONVERGED_SWEEPS and sweep > SHARED_FEWEST_SWEEPS):
            break
        before = loss
    return sweeps.state()

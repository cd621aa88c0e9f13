"""Iteratively reweighted least squares: damped steps of one column's block, and of all main effects.

At the current linear predictors the losses have working weights and working responses; given these, a block is a
penalised least squares problem. A step is taken if the losses fall nearly as much as their quadratic approximations
(sufficient decrease); otherwise it is damped, or taken with the family's majorant, a quadratic upper bound of the loss.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ahofm.backends import Response, Trial, WorkingRows, never
from ahofm.columns.basis import Floats
from ahofm.fit.solvers.variational.main_effects import AdditiveDesign, MainEffects
from ahofm.fit.solvers.variational.posterior import LinearPredictor
from ahofm.kernels import BlockSums, ColumnMoments
from ahofm.priors.posterior import ColumnPosterior
from ahofm.tuning import DAMPINGS, LARGEST_ETA_STEP, MAIN_HALVINGS, REBUILD_VALUE_RATIO, ROUNDING, SUFFICIENT_DECREASE


@dataclass
class IrlsState:
    """Posteriors of all linear predictors, and the rows at them.

    Attributes
    ----------
    rows : WorkingRows
        Linear predictors, losses and working responses of all rows.
    additive : AdditiveDesign
    linear_predictors : list of LinearPredictor
    dispersion : float
        The dispersion; 1 where it is known.
    damped : int
        Number of steps without sufficient decrease.
    stop : function
        Called between columns; the sweep ends there if it returns True.
    """

    rows: WorkingRows
    additive: AdditiveDesign
    linear_predictors: list[LinearPredictor]
    dispersion: float = 1.0
    damped: int = 0
    stop: Callable[[], bool] = never

    @property
    def response(self) -> Response:
        """Its family changes when it has parameters of its own."""
        return self.rows.response

    def step_column(self, k: int, j: int, *, update_lam: bool) -> None:
        """One block of one linear predictor, with the least damping that gives sufficient decrease.

        A step without it is taken with the family's majorant instead, if it has one: every step of that decreases the
        loss.
        """
        linear_predictor, rows = self.linear_predictors[k], self.rows
        old, with_majorant = linear_predictor.blocks[j], False
        rows.linearise(k)
        sums = self.remove_column(k, None, j)
        for damping in DAMPINGS:
            linear_predictor.solve(j, sums, self.dispersion, update_lam=update_lam, damping=damping)
            if self._add_and_test(k, j, unchecked=False):
                return
            self._undo_solve(k, j, old)
            with_majorant = rows.linearise(k, majorant=True)
            if with_majorant:
                break
        if with_majorant:
            rows.swap(k, linear_predictor.moments(j), None)
            linear_predictor.solve(j, self.remove_column(k, None, j), self.dispersion, update_lam=update_lam)
        else:
            linear_predictor.blocks[j] = old.without_unsolved()
        self._add_and_test(k, j, unchecked=True)

    def step_main_effects(self, k: int, *, update_lam: bool = True) -> None:
        """Solve for intercept and smooth main effects given the blocks; halve the step until it decreases enough."""
        sums, old = self.rows.main_sums(k), self.linear_predictors[k].posterior
        if not sums.total > np.finfo(float).tiny:
            return  # losses are flat far from the targets: there is no direction
        intercept, smooth = self.additive.step(old.smooth, sums, self.dispersion, update_lam=update_lam)
        step = 1.0
        for _ in range(MAIN_HALVINGS):
            coef = old.smooth.coef + step * (smooth.coef - old.smooth.coef)
            constant = old.intercept + step * (intercept - old.intercept)
            self.set_main_effects(k, constant, MainEffects(coef, smooth.lam, smooth.trace))
            if self._accept_or_reject(k):
                return
            step *= 0.5
        self.set_main_effects(k, old.intercept, old.smooth)

    def set_main_effects(self, k: int, intercept: float, smooth: MainEffects) -> None:
        """Replace intercept and smooth main effects of a linear predictor, in its posterior and in the rows."""
        self.linear_predictors[k].set_main_effects(intercept, smooth)
        self.rows.set_main_effects(k, intercept, smooth.coef)

    def remove_column(self, k: int, add: ColumnMoments | None, j: int) -> BlockSums:
        """Sums (codes, F, F) and (codes, F) of a column, which is removed; column ``add`` is added first, if given."""
        sums = self.rows.swap(k, add, self.linear_predictors[k].moments(j))
        assert sums is not None
        return sums

    def _add_and_test(self, k: int, j: int, *, unchecked: bool) -> bool:
        """Add a solved block to the row states; returns whether the step is accepted."""
        self.rows.swap(k, self.linear_predictors[k].moments(j), None)
        return self._accept_or_reject(k, unchecked=unchecked)

    def _accept_or_reject(self, k: int, *, unchecked: bool = False) -> bool:
        """Accept a change of linear predictor k if it has sufficient decrease, else reject it; returns whether."""
        trial = self.rows.trial(k)
        if unchecked or self._sufficient_decrease(trial):
            self.rows.accept(self.other_variances())
            return True
        self.rows.reject()
        self.damped += 1
        return False

    def _undo_solve(self, k: int, j: int, old: ColumnPosterior) -> None:
        """Remove a column whose solve was rejected from the row states, and restore its former posterior.

        Row states are sums of products, and to remove a column is to subtract: values that were far too large leave
        mostly rounding errors. The states are then built from the other columns.
        """
        linear_predictor = self.linear_predictors[k]
        rejected, former = (np.abs(block.mean).max(axis=0) for block in (linear_predictor.blocks[j], old))
        if (rejected <= REBUILD_VALUE_RATIO * former).all():
            self.rows.swap(k, None, linear_predictor.moments(j))
        else:
            others = [linear_predictor.moments(i) for i in range(len(linear_predictor.blocks)) if i != j]
            posterior = linear_predictor.posterior
            self.rows.set_columns(k, posterior.ranks, others, posterior.loadings)
        linear_predictor.blocks[j] = old

    def _sufficient_decrease(self, trial: Trial) -> bool:
        """Whether the losses fell nearly as much as their quadratic approximations.

        An exact step lowers the penalised approximations by at least half of ``sum weight step^2``; if the losses
        exceed the approximations by at most a quarter of it, the penalised loss falls. With a majorant it always does.
        """
        if self.rows.use_majorant or self.response.family.curvature == "majorant":
            return trial.finite
        if not np.isfinite(trial.excess) or trial.largest_change > LARGEST_ETA_STEP:
            return False
        rounding = ROUNDING * self.response.total * abs(trial.before)
        return trial.excess <= SUFFICIENT_DECREASE * trial.curved + rounding

    def variance_traces(self) -> Floats:
        """Traces over all rows of the variances that are in no row state: (K,)."""
        total = self.response.total
        return np.array(
            [linear_predictor.variance_trace(self.dispersion, total) for linear_predictor in self.linear_predictors]
        )

    def other_variances(self) -> Floats:
        """Mean variances that are in no row state, where losses use them: (K,)."""
        if not self.response.uses_variance:
            return np.zeros(len(self.linear_predictors))
        return self.variance_traces() / self.response.total

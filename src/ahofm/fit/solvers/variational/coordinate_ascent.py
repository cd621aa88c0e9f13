"""Coordinate ascent: the state of a variational fit, and one sweep over all columns.

1. Linearise: working weights and working responses at the current linear predictors (once, for least squares).
2. Remove a column from the row states and take its sums per code.
3. Solve its block under its prior; update its smoothing parameters.
4. Add the column again; test sufficient decrease, else damp, or use the family's majorant.
5. After all columns: intercept and smooth main effects jointly, smoothing parameters of pairs, the dispersion.

Rows are behind ``ahofm.backends.WorkingRows``; a backend with a sweeper does all steps by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ahofm.backends import (
    FailedError,
    Response,
    Rows,
    StoppedError,
    SweepArrays,
    Sweeper,
    SweepingRows,
)
from ahofm.columns.basis import Floats
from ahofm.families.links import quiet
from ahofm.fit.solvers.variational.irls import IrlsState
from ahofm.fit.solvers.variational.main_effects import AdditiveDesign
from ahofm.fit.solvers.variational.posterior import LinearPredictor, Posterior, WarmStart
from ahofm.kernels import ColumnMoments
from ahofm.priors.column import ColumnPriors
from ahofm.priors.posterior import ColumnPosterior
from ahofm.tuning import (
    ADDITIVE_FIRST_STEPS,
    FEWEST_FIRST_STEPS,
    FIRST_STEPS_TOL,
    LEAST_DISPERSION,
    LEAST_DISPERSION_RATIO,
)
from ahofm.tuning.numerics import ROUNDING_IN_DISPERSION


@dataclass
class VariationalState(IrlsState):
    """State of a variational fit: posteriors, row states, dispersion, and the backend's sweeper where it has one."""

    _sweeper: tuple[Sweeper, SweepArrays] | None = field(default=None, repr=False)

    @classmethod
    def start(
        cls, rows: Rows, response: Response, additive: AdditiveDesign, columns: Sequence[ColumnPriors]
    ) -> VariationalState:
        """Constants, then smooth main effects of all columns together."""
        posteriors = [Posterior(float(constant), additive.zero_effects(), (), {}) for constant in response.constants]
        linear_predictors = [LinearPredictor(posterior) for posterior in posteriors]
        state = cls(rows.working(response, additive.rows), additive, linear_predictors)
        for k, posterior in enumerate(posteriors):
            state.set_main_effects(k, posterior.intercept, posterior.smooth)
        state.rows.evaluate()
        expected = 1.0
        if response.quadratic:
            square = state._start_least_squares()
            state.dispersion, expected = max(square, LEAST_DISPERSION), 2.0 * square
        else:
            state._start_irls()
        for linear_predictor in linear_predictors:
            linear_predictor.blocks = [ColumnPosterior.empty(column, response.n_rows, expected) for column in columns]
        return state

    @property
    def has_sweeper(self) -> bool:
        """Whether a sweeper of the backend makes the sweeps."""
        return self._sweeper is not None

    def copy(self, columns: Sequence[ColumnPriors] | None = None) -> VariationalState:
        """A copy without row states; of main effects alone with other priors of factors, if ``columns`` are given."""
        self.sync_posteriors()
        copies = [LinearPredictor(linear_predictor.frozen()) for linear_predictor in self.linear_predictors]
        for linear_predictor in copies if columns is not None else []:
            linear_predictor.blocks = [
                block.with_column(column) for block, column in zip(linear_predictor.blocks, columns or (), strict=True)
            ]
        return replace(self, rows=self.rows.copy(), linear_predictors=copies, _sweeper=None)

    def warm_start(self, start: WarmStart) -> None:
        """Continue from the posterior of a fit to other rows, and from its dispersion; row states are not built."""
        self.release_sweeper()
        for k, linear_predictor in enumerate(self.linear_predictors):
            linear_predictor.warm_start(start, k, self.additive.rows.centre)
            posterior = linear_predictor.posterior
            self.set_main_effects(k, posterior.intercept, posterior.smooth)
        if self.response.family.dispersed:
            self.dispersion = start.dispersion

    def start_sweeper(self) -> None:
        """Give copies of the posteriors to a sweeper of the backend, which makes all sweeps from now on."""
        assert isinstance(self.rows, SweepingRows)
        posteriors = [linear_predictor.frozen() for linear_predictor in self.linear_predictors]
        arrays = SweepArrays(
            [block.prior_arrays() for block in posteriors[0].blocks],
            posteriors[0].ranks,
            self.additive.arrays,
            [posterior.arrays() for posterior in posteriors],
        )
        self._sweeper = self.rows.sweeper(arrays, self.stop), arrays

    def release_sweeper(self) -> None:
        """Copy the posteriors from the backend's sweeper and leave it, e.g. before factors are added."""
        self.sync_posteriors()
        for k, linear_predictor in enumerate(self.linear_predictors):
            self.set_main_effects(k, linear_predictor.posterior.intercept, linear_predictor.posterior.smooth)
        self._sweeper = None

    def sync_posteriors(self) -> None:
        """Copy the posteriors from the backend's sweeper, where there is one."""
        if self._sweeper is not None:
            sweeper, arrays = self._sweeper
            for k, (linear_predictor, swept) in enumerate(
                zip(self.linear_predictors, arrays.linear_predictors, strict=True)
            ):
                linear_predictor.posterior = linear_predictor.frozen().with_arrays(swept, sweeper.found(k))
                linear_predictor.blocks = list(linear_predictor.posterior.blocks)

    def objective(self) -> float:
        """Dispersion of the standardised target (its residual variance), or the fraction of the loss that remains."""
        return self.dispersion if self.response.quadratic else self.response.remaining(self.rows.loss())

    def reference(self) -> tuple[float, float]:
        """Objective and dispersion at the start of a stage; the objective is at least that of constants."""
        least = 0.0 if self.response.quadratic else self.response.constants_remaining
        return max(self.objective(), least), self.dispersion

    def objective_ratio(self, reference: tuple[float, float], *, ends: bool = False) -> float:
        """Ratio of the objective to its reference; unless ``ends``, the larger of that and the ratio of dispersions."""
        with quiet():  # a loss without a lower bound is in nats per row, like half the logarithm of a variance
            in_nats = self.response.floor is None
            objective = self.objective()
            ratio = np.exp(2.0 * (objective - reference[0])) if in_nats else np.divide(objective, reference[0])
            return float(ratio if ends else np.maximum(ratio, self.dispersion / reference[1]))

    def largest_value(self) -> float:
        """The largest value of any function."""
        if self._sweeper is not None:
            return self._sweeper[0].largest()
        return max(linear_predictor.largest_value for linear_predictor in self.linear_predictors)

    def information(self, k: int) -> float:
        """Information of the rows about linear predictor k: sum of working weights over dispersion."""
        return self.rows.information(k) / self.dispersion

    def build(self, tempering: float) -> None:
        """Row states from scratch, with variances multiplied by the tempering."""
        if self._sweeper is not None:
            self._sweeper[0].build(tempering)
            return
        for k in range(len(self.linear_predictors)):
            self.set_columns(k, tempering)
        if self.response.quadratic:
            self.rows.linearise(0)
        else:
            self.rows.evaluate(self.other_variances())

    def set_columns(self, k: int, tempering: float) -> None:
        """The row states of one linear predictor from scratch."""
        linear_predictor = self.linear_predictors[k]
        linear_predictor.tempering = tempering
        moments = [linear_predictor.moments(j) for j in range(len(linear_predictor.blocks))]
        self.rows.set_columns(k, linear_predictor.posterior.ranks, moments, linear_predictor.posterior.loadings)

    def sweep(self, *, update_lam: bool, backwards: bool, floor: float) -> None:
        """All columns once, main effects jointly, smoothing parameters of pairs, the dispersion: at least ``floor``."""
        if self._sweeper is not None:
            self._backend_sweep(self._sweeper[0], floor, learn=update_lam, learn_mains=True, backwards=backwards)
            return
        if self.response.quadratic:
            self._least_squares_sweep(update_lam=update_lam, backwards=backwards, update_main_lam=True)
        else:
            for k in range(len(self.linear_predictors)):
                if k and not update_lam and self.response.uses_variance:
                    continue  # without variances of partners the scale would be underestimated
                self._irls_sweep(k, update_lam=update_lam, backwards=backwards, update_main_lam=True)
        if update_lam:
            for k, linear_predictor in enumerate(self.linear_predictors):
                linear_predictor.update_tensor_smoothing(self.information(k))
        self._update_dispersion(self._least_dispersion(floor))

    def sweep_coefficients(self, *, backwards: bool) -> None:
        """One sweep with fixed smoothing parameters and dispersion, towards the optimum of that convex problem."""
        if self._sweeper is not None:
            dispersion = self.dispersion
            self._backend_sweep(self._sweeper[0], 0.0, learn=False, learn_mains=False, backwards=backwards)
            self.dispersion = dispersion
        elif self.response.quadratic:
            self._least_squares_sweep(update_lam=False, backwards=backwards, update_main_lam=False)
        else:
            for k in range(len(self.linear_predictors)):
                self._irls_sweep(k, update_lam=False, backwards=backwards, update_main_lam=False)

    def learn_parameters(self) -> None:
        """Estimate parameters of the family, e.g. a shape, where it has any that are not given."""
        if self.response.family.open and self._sweeper is not None:
            self._sweeper[0].learn_parameters()
        elif self.response.family.open:
            self.rows.learn_parameters(self.other_variances())

    def _backend_sweep(self, sweeper: Sweeper, floor: float, **options: bool) -> None:
        self.dispersion, damped = sweeper.sweep(self.dispersion, floor=floor, **options)
        self.damped += damped
        if self.response.family.dispersed and not self.response.quadratic:
            self.sync_posteriors()
            self._update_dispersion(self._least_dispersion(floor))

    def _start_least_squares(self) -> float:
        """The additive least squares fit; returns its mean squared residual."""
        (linear_predictor,), rows = self.linear_predictors, self.rows
        intercept, sums = linear_predictor.posterior.intercept, self.rows.main_sums(0)

        def residual_squares(coef: Floats) -> float:
            rows.set_main_effects(0, intercept, coef)
            return 2.0 * sums.total * rows.trial(0).loss

        smooth = self.additive.initial(sums, 2.0 * rows.loss(), residual_squares)
        self.set_main_effects(0, intercept, smooth)
        rows.evaluate()
        return 2.0 * rows.loss()

    def _start_irls(self) -> None:
        """The additive fit of other losses, by IRLS."""
        objective = self.objective()
        for step in range(ADDITIVE_FIRST_STEPS):
            self._update_dispersion(floor=0.0)
            for k in range(len(self.linear_predictors)):
                self.step_main_effects(k)
            before, objective = objective, self.objective()
            if step >= FEWEST_FIRST_STEPS and abs(objective - before) < FIRST_STEPS_TOL:
                break

    def _least_squares_sweep(self, *, update_lam: bool, backwards: bool, update_main_lam: bool) -> None:
        """All blocks at the same working response, then the main effects: for least squares."""
        (linear_predictor,), rows = self.linear_predictors, self.rows
        solved: ColumnMoments | None = None  # added in the pass that removes the next column
        for j in self._columns(0, backwards):
            linear_predictor.solve(j, self.remove_column(0, solved, j), self.dispersion, update_lam=update_lam)
            solved = linear_predictor.moments(j)
        rows.swap(0, solved, None)
        self._rescale_products(0)
        smooth, sums = linear_predictor.posterior.smooth, rows.main_sums(0)
        self.set_main_effects(0, *self.additive.step(smooth, sums, self.dispersion, update_lam=update_main_lam))
        rows.linearise(0)
        rows.evaluate(self.other_variances())

    def _columns(self, k: int, backwards: bool) -> Iterator[int]:
        """Columns in turn; a sweep that is to stop ends between two of them."""
        for j in range(len(self.linear_predictors[k].blocks))[:: -1 if backwards else 1]:
            if self.stop():
                raise StoppedError
            yield j

    def _irls_sweep(self, k: int, *, update_lam: bool, backwards: bool, update_main_lam: bool) -> None:
        """All blocks of one linear predictor, each at its own working response, then its main effects."""
        for j in self._columns(k, backwards):
            self.step_column(k, j, update_lam=update_lam)
        self._rescale_products(k)
        self.step_main_effects(k, update_lam=update_main_lam)

    def _rescale_products(self, k: int) -> None:
        """Rescale functions of product factors to root mean square one; linear predictors do not change."""
        if self.linear_predictors[k].rescale_products():
            self.set_columns(k, self.linear_predictors[k].tempering)

    def refresh_dispersion(self) -> None:
        """The dispersion without rounding errors of row states, right after ``build``.

        Pearson's statistic divides squared residuals by means: the rounding error of the linear predictor of one row
        with a small mean can be most of it. Variances of pairs are larger with the dispersion: until it falls no more.
        """
        before = np.inf
        while self.dispersion * ROUNDING_IN_DISPERSION <= before:
            before = self.dispersion
            self._update_dispersion(floor=0.0)
        self.dispersion = before

    def _least_dispersion(self, floor: float) -> float:
        """Lower bound of the dispersion after a sweep: with tensor product penalties a fraction of that before."""
        posteriors = [linear_predictor.posterior for linear_predictor in self.linear_predictors]
        bounded = any(posterior.tensor_smoothing is not None for posterior in posteriors)
        return max(floor, LEAST_DISPERSION_RATIO * self.dispersion) if bounded else floor

    def _update_dispersion(self, floor: float) -> None:
        """Estimate the dispersion, for families that have one: ``E_q[sum of squared residuals] / total weight``.

        That is Pearson's statistic at the means, plus the traces of the variances of linear predictors.
        """
        if not self.response.family.dispersed:
            return
        dispersion = self.rows.dispersion() + float(sum(self.variance_traces())) / self.response.total
        if not np.isfinite(dispersion):
            raise FailedError("the dispersion is not finite")
        self.dispersion = max(dispersion, floor, LEAST_DISPERSION)

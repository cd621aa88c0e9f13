"""A staged fit: main effects, then pairs, then triples, each stage from where the last one ended.

Mean-field variational Bayes by coordinate ascent over columns. eta is affine in all functions of one column, so given
the posterior of the others, a column's posterior is one exact solve; its variances then enter the problems of the
others. That prunes: a factor that the rows do not support has partners of small mean and large variance.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from ahofm.columns import Codes
from ahofm.columns.basis import Floats
from ahofm.fit.cost.schedule import Job, Schedule
from ahofm.fit.solvers.variational.coordinate_ascent import VariationalState
from ahofm.fit.solvers.variational.engine import has_engine
from ahofm.fit.solvers.variational.init import Spectrum, harmless, random_factors, spectral_factors
from ahofm.fit.solvers.variational.main_effects import AdditiveDesign
from ahofm.fit.solvers.variational.posterior import FailedError, Fit, LinearPredictor, Posterior
from ahofm.fit.solvers.variational.row_states import RowStates
from ahofm.fit.solvers.variational.tempering import Tempering
from ahofm.fit.solvers.variational.working import Response
from ahofm.kernels import BlockKernel, BlockSums, NativeBlockKernel
from ahofm.model.shares import symmetric
from ahofm.priors.column import ColumnPriors
from ahofm.rows import ArraySource, Executor
from ahofm.tuning import (
    DIVERGED,
    FAMILY_SWEEPS,
    HARMFUL,
    IDLE_FACTOR,
    LARGEST_VALUE,
    MORE_FACTORS_FROM,
    MOST_GROWTHS,
    SETTLED,
)


@dataclass(frozen=True)
class Sweep:
    """One sweep over all columns: the order of its stage, and the objective it ends at.

    ``value`` is the noise variance of the standardised target, or the fraction of the loss that remains; ``grown`` is
    how often the order has got more factors.
    """

    order: int
    number: int
    value: float
    change: float
    grown: int = 0


Report: TypeAlias = Callable[[Sweep], bool]
"""Told of every sweep; the fit ends with what it has when it returns True."""


@dataclass
class MainStage:
    """Main effects of some rows before interactions follow: the same for all candidates of one tempering, fitted once.

    The first staged fit that asks for them fits them; others that ask meanwhile wait.
    """

    state: VariationalState | None = None
    settled: bool = False
    spectra: dict[int, Spectrum] = field(default_factory=dict)  # of the residuals, by linear predictor
    lock: threading.Lock = field(default_factory=threading.Lock)


@dataclass
class StagedFit:
    """A staged fit to rows in the units of the standardised target.

    Parameters
    ----------
    columns : sequence of ColumnPriors
        Those that vary.
    codes : Codes
        Of those columns.
    response : Response
    additive : AdditiveDesign
        Smooth main effects at the true values of the rows.
    ranks : dict of order to rank
    tempering : function
        Fraction of the partners' variance that counts (power posterior), by the fraction of the loss that remains.
    rng : Generator
    reweighted : bool
        Whether factors start from randomly reweighted rows, so that another ensemble member differs.
    growing : bool
        Whether pairs get more factors as long as they leave something to explain.
    surfaces : bool
        Whether pairs of smooth columns have smoothing parameters of their own.
    main_stage : MainStage
        Shared with other fits of the same rows.
    """

    columns: Sequence[ColumnPriors]
    codes: Codes
    response: Response
    additive: AdditiveDesign
    ranks: Mapping[int, int]
    tempering: Tempering
    rng: np.random.Generator
    reweighted: bool
    kernel: BlockKernel
    executor: Executor
    schedule: Schedule = field(default_factory=Schedule)
    fits: list[Fit] = field(default_factory=list)
    posteriors: list[tuple[Posterior, ...]] = field(default_factory=list)
    settled: bool = False
    growing: bool = False
    surfaces: bool = True
    main_stage: MainStage = field(default_factory=MainStage)
    forgotten: bool = False
    _state: VariationalState = field(init=False)

    @property
    def job(self) -> Job:
        """How much there is to do."""
        return Job(self.response.n_rows, self.ranks, self.schedule)

    @property
    def native(self) -> bool:
        """Whether sweeps run in the native engine, without Python's lock."""
        return isinstance(self.kernel, NativeBlockKernel) and has_engine(self.response, self.columns)

    @property
    def damped(self) -> int:
        """Number of steps without sufficient decrease."""
        return self._state.damped

    @property
    def orders(self) -> tuple[int, ...]:
        """Of all stages."""
        return 1, *self.ranks

    def run(self, report: Report, highest: int | None = None) -> list[Fit]:
        """The fits at orders 1, 2, ...: the last of them is the fit. A stage that fails leaves the one below it.

        With ``highest`` it ends after the stage of that order; another call goes on from there.
        """
        for order in self.orders[len(self.fits) :]:
            if highest is not None and order > highest:
                break
            before = self._state.copy() if self.fits else None
            try:
                stopped = self._order(order, report) if self.fits else self._main_effects(report)
            except FailedError:
                if before is None:
                    raise
                self._state = before
                self.fits.append(self.fits[-1])
                self.posteriors.append(self.posteriors[-1])
                continue
            self.fits.append(self.fit())
            self.posteriors.append(
                tuple(linear_predictor.frozen() for linear_predictor in self._state.linear_predictors)
            )
            if stopped:
                break
        self.response = self._state.response
        self._state = self._state.copy()  # the rows' states take memory that other fits need
        return self.fits

    def _order(self, order: int, report: Report) -> bool:
        """The stage of interactions of an order; whether somebody asked to stop."""
        self._add_factors(order)
        stopped = self._stage(order, report)
        return self._grow(report) if order == 2 and self.growing and not stopped else stopped

    def _main_effects(self, report: Report) -> bool:
        """The first stage, as another fit of these rows has found it or anew; whether somebody asked to stop."""
        if not self.ranks:
            self._state = VariationalState.start(self.response, self.additive, self.columns)
            return self._converged(report)
        shared = self.main_stage
        with shared.lock:
            if shared.state is not None:
                self._state, self.settled = shared.state.with_columns(self.columns), shared.settled
                return False
            self._state = VariationalState.start(self.response, self.additive, self.columns)
            stopped = self._stage(1, report)
            if not stopped:
                shared.state, shared.settled = self._state.with_columns(self.columns), self.settled
            return stopped

    def forget(self) -> None:
        """Everything but the fits: nothing can go on from them."""
        self.posteriors, self.forgotten = [], True
        del self._state

    def fit(self) -> Fit:
        """The fit as it is: also in the middle of a sweep, once every column has been solved."""
        state = self._state
        state.pull()
        parts = [
            linear_predictor.frozen().stage_result(self.additive, state.noise)
            for linear_predictor in state.linear_predictors
        ]
        fit = tuple(part for part in parts if part is not None)
        return fit if len(fit) == len(parts) else self.fits[-1]

    def so_far(self) -> list[Fit]:
        """The fits of complete stages and, of the one at work, the fit as it is; none before a first sweep is over."""
        finished = len(self.fits) == len(self.orders)
        if finished or not hasattr(self, "_state"):
            return self.fits
        self._state.pull()
        solved = all(
            linear_predictor.frozen().stage_result(self.additive, 1.0)
            for linear_predictor in self._state.linear_predictors
        )
        return [*self.fits, self.fit()] if self.fits or solved else []

    def expected_sums(self, posteriors: Sequence[Posterior]) -> list[list[BlockSums]]:
        """Sums over the rows for every column of every linear predictor, with the partners' variances in."""
        state = self._state
        linear_predictors = [LinearPredictor(posterior, self.additive) for posterior in posteriors]
        tempering = self._tempering()
        for linear_predictor in linear_predictors:
            linear_predictor.build(self._rows(linear_predictor), tempering)
        derivatives = state.response.derivatives(
            np.stack([linear_predictor.fitted()[0] for linear_predictor in linear_predictors], axis=1)
        )
        found = []
        for k, linear_predictor in enumerate(linear_predictors):
            linear_predictor.set_working_response(state.response.working_response(derivatives, k))
            own = []
            for j in range(len(linear_predictor.blocks)):
                own.append(linear_predictor.rows.swap_columns(None, linear_predictor.moments(j)))
                linear_predictor.rows.add_column(linear_predictor.moments(j))
            found.append(own)
        return found

    def _grow(self, report: Report) -> bool:
        """More factors for pairs while there is something left for them; whether somebody asked to stop."""
        for times in range(1, MOST_GROWTHS + 1):
            if self._has_idle_factors():
                break
            gradients = [self._gradient(k) for k in range(len(self._state.linear_predictors))]
            found = [Spectrum.of(self.columns, self.codes, gradient) for gradient in gradients]
            if max(spectrum.n_found for spectrum in found) < MORE_FACTORS_FROM:
                break
            before = self._state.copy()
            try:
                self._add_factors(2)
                if self._stage(2, report, times):
                    return True
            except FailedError:
                self._state = before
                break
        return False

    def _has_idle_factors(self) -> bool:
        """Whether pairs have factors in every linear predictor that next to nothing is left of: more find no more."""
        state = self._state
        state.pull()
        for k, linear_predictor in enumerate(state.linear_predictors):
            squares = np.array([block.column.mass @ block.mean[:-1, 1:] ** 2 for block in linear_predictor.blocks])
            row_variance = state.response.total / state.information(k)
            if float(symmetric(squares, 2).min()) >= IDLE_FACTOR * row_variance:
                return False
        return True

    def _gradient(self, k: int) -> Floats:
        """Negative gradient of the loss by linear predictor k, (n,), over the sum of working weights."""
        response, derivatives = self._state.response, self._state.derivatives
        return np.asarray(
            -response.weight * derivatives.slope[:, k] / float(response.weight @ derivatives.curvature[:, k])
        )

    def _add_factors(self, order: int) -> None:
        self._state.end()
        response, rank, first = self._state.response, self.ranks[order], len(self.fits) == 1
        for k, linear_predictor in enumerate(self._state.linear_predictors):
            std = self._initial_std(k)
            if order == 2:
                most = np.inf if response.quadratic else 1.0
                new = spectral_factors(self.columns, self._spectrum(k, first), rank, std, self.rng, most=most)
            else:
                new = random_factors(self.columns, rank, std, self.rng)
            if not response.quadratic:
                most = 0.2 * std if order > 2 else np.inf
                new = harmless(self.columns, self.codes, response, self._state.derivatives, k, order, new, most)
            linear_predictor.widen(order, new)
            if order == 2 and self.surfaces and linear_predictor.posterior.surfaces is None:
                linear_predictor.begin_surfaces(self._state.information(k), response.total)

    def _spectrum(self, k: int, first: bool) -> Spectrum:
        """Of the residual's covariance with products of functions; that of main effects is made once for all fits."""
        gradient = self._gradient(k)
        if self.reweighted:
            gradient = gradient * self.rng.exponential(size=len(gradient))
        if self.reweighted or not first:
            return Spectrum.of(self.columns, self.codes, gradient)
        with self.main_stage.lock:
            if k not in self.main_stage.spectra:
                self.main_stage.spectra[k] = Spectrum.of(self.columns, self.codes, gradient)
            return self.main_stage.spectra[k]

    def _initial_std(self, k: int) -> float:
        """Standard deviation to scale new factors by: the residual's, or that of the linear predictor so far."""
        response, derivatives = self._state.response, self._state.derivatives
        if response.quadratic:
            return float(np.sqrt(2.0 * response.mean_of(derivatives.value)))
        eta = derivatives.eta[:, k]
        square = response.mean_of((eta - response.mean_of(eta)) ** 2)
        return float(np.clip(np.sqrt(square), 0.1, 1.0))

    def _stage(self, order: int, report: Report, grown: int = 0) -> bool:
        """Sweep until the loss settles; whether somebody asked to stop."""
        schedule, state = self.schedule, self._state
        limit = schedule.most(order, max(self.ranks, default=1))
        used, settled, stopped, change, began = -1.0, 0, False, np.inf, state.reference()
        judged = schedule.judged and order > 1
        for number in range(limit):
            warm = order > 1 and number < schedule.warm
            tempering = 0.0 if warm else self._tempering()
            if used < 0.0 or abs(tempering - used) > 0.02 * tempering or number % schedule.rebuild == 0:
                used = tempering
                self._build(tempering)
            before = state.objective()
            if number in FAMILY_SWEEPS:
                state.learn_parameters()
            state.sweep(learn=not warm, backwards=number % 2 == 1, floor=0.7 * state.noise if warm else 0.0)
            value = state.objective()
            if judged and not (state.risen(began) <= DIVERGED and state.largest() <= LARGEST_VALUE):
                raise FailedError("sweeps diverge")
            change = abs(float(np.log(value / before))) if state.response.quadratic else abs(value - before)
            stopped = report(Sweep(order, number, value, change, grown))
            settled = settled + 1 if change < schedule.tol else 0
            if stopped or (order > 1 and number + 1 >= schedule.fewest and settled >= 3):
                break
        if not state.response.quadratic:
            self._build(
                used
            )  # linear predictors of the posterior as it is, without the rounding of all that was removed
        if judged and not stopped and not state.risen(began, ends=True) <= HARMFUL:
            raise FailedError("new factors raise the loss")
        self.settled = change < schedule.tol
        return stopped

    def _converged(self, report: Report) -> bool:
        """Main effects alone; whether somebody asked to stop.

        1. Sweeps that update smoothing parameters and dispersion. They are few: where a code has one row, smoothing
           parameters that follow the dispersion, and a dispersion that follows them, may end at interpolation.
        2. Sweeps with both as they are, until predictions change no more: the one optimum of that problem.
        """
        schedule, state, settled, stopped = self.schedule, self._state, 0, False
        for number in range(schedule.learning + schedule.alone):
            if number % schedule.rebuild == 0:
                self._build(1.0)  # main effects have no partners: all of their variance counts as noise
            before, eta, backwards = state.objective(), state.derivatives.eta.copy(), number % 2 == 1
            if number < schedule.learning:
                if number in FAMILY_SWEEPS:
                    state.learn_parameters()
                state.sweep(learn=True, backwards=backwards, floor=0.0)
            else:
                state.settle(backwards=backwards)
                settled = settled + 1 if self._moved(eta) < SETTLED else 0
            change = (
                abs(float(np.log(state.objective() / before)))
                if state.response.quadratic
                else state.objective() - before
            )
            stopped = report(Sweep(1, number, state.objective(), abs(change)))
            if stopped or settled >= 3:
                break
        self.settled = settled > 0
        return stopped

    def _moved(self, before: Floats) -> float:
        """Root mean square of the change of the linear predictors, in units of the standard deviation of a row."""
        state = self._state
        square = (state.derivatives.curvature * (state.derivatives.eta - before) ** 2).sum(axis=1)
        return float(np.sqrt(state.response.mean_of(square) / state.noise))

    def _build(self, tempering: float) -> None:
        """Row states from scratch, in compiled code where it has the priors."""
        state = self._state
        if state.engine is None and self.native:
            precision = "float64" if self.kernel == NativeBlockKernel("float64") else "float32"
            state.begin(self.codes, precision, getattr(self.executor, "n_threads", 1) or 1)
        state.build(self._rows, tempering)

    def _rows(self, linear_predictor: LinearPredictor) -> RowStates:
        return RowStates(ArraySource(self.codes), self.executor, self.kernel, linear_predictor.posterior.ranks)

    def _tempering(self) -> float:
        return self.tempering(self._state.objective() if self.response.floor is not None else 1.0)

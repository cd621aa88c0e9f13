"""A staged fit: main effects, then pairs, then triples, each stage from where the last one ended.

Mean-field variational Bayes by coordinate ascent over columns. eta is affine in all functions of one column, so given
the posterior of the others, a column's posterior is one exact solve; its variances then enter the problems of the
others. That prunes: a factor that the rows do not support has partners of small mean and large variance.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeAlias

import numpy as np

from ahofm.backends import (
    Backend,
    FailedError,
    Precision,
    Response,
    Rows,
    StoppedError,
    SweepingBackend,
    backend_of,
    never,
)
from ahofm.columns import Codes
from ahofm.fit.cost.schedule import Job, Schedule
from ahofm.fit.solvers.variational.coordinate_ascent import VariationalState
from ahofm.fit.solvers.variational.init import Spectrum, add_factors, has_idle_factors
from ahofm.fit.solvers.variational.main_effects import AdditiveDesign
from ahofm.fit.solvers.variational.posterior import Fit, LinearPredictor, Posterior
from ahofm.fit.solvers.variational.product_start import add_products
from ahofm.kernels import BlockSums
from ahofm.orders import PRODUCT
from ahofm.priors.arrays import prior_kind
from ahofm.priors.column import ColumnPriors
from ahofm.rows import ArraySource, Executor
from ahofm.tuning import (
    DIVERGED,
    FAMILY_SWEEPS,
    HARMFUL,
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


Tempering: TypeAlias = Callable[[float], float]
"""The tempering as a function of the fraction of the loss that remains: 1 where it is not known."""

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
    backend : Backend
        Who computes on the rows.
    precision : "float32" or "float64"
        Of row states, at least.
    stop : function
        Asked between columns whether to end there, e.g. because the time is over.
    complete : bool
        Whether all stages came to their end.
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
    executor: Executor
    schedule: Schedule = field(default_factory=Schedule)
    fits: list[Fit] = field(default_factory=list)
    posteriors: list[tuple[Posterior, ...]] = field(default_factory=list)
    settled: bool = False
    growing: bool = False
    surfaces: bool = True
    backend: Backend = field(default_factory=backend_of)
    precision: Precision = "float64"
    stop: Callable[[], bool] = never
    complete: bool = False
    main_stage: MainStage = field(default_factory=MainStage)
    forgotten: bool = False
    _sweeps: int = field(init=False, default=0)
    _state: VariationalState = field(init=False)

    @property
    def job(self) -> Job:
        """How much there is to do."""
        return Job(self.response.n_rows, self.ranks, self.schedule)

    @property
    def sweeps_alone(self) -> bool:
        """Whether the backend does whole sweeps by itself, without Python's lock."""
        kinds = [prior_kind(prior) for column in self.columns for prior in (column.main, column.factors)]
        return isinstance(self.backend, SweepingBackend) and self.backend.sweeps(self.response, kinds)

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

        So does a stage that is stopped before its factors have been weighed against their uncertainty. With ``highest``
        it ends after the stage of that order; another call goes on from there.
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
            if stopped and self._unripe(order):
                break
            self.fits.append(self.fit())
            self.posteriors.append(
                tuple(linear_predictor.frozen() for linear_predictor in self._state.linear_predictors)
            )
            if stopped:
                break
        else:
            self.complete = True
        self.response = self._state.response
        self._state = self._state.copy()  # the rows' states take memory that other fits need
        return self.fits

    def _order(self, order: int, report: Report) -> bool:
        """The stage of interactions of an order; whether the fit is to stop."""
        self._add_factors(order)
        stopped = self._stage(order, report)
        return self._grow(report) if order == 2 and self.growing and not stopped else stopped

    def _start(self) -> VariationalState:
        state = VariationalState.start(self._rows(), self.response, self.additive, self.columns)
        state.stop = self.stop
        return state

    def _main_effects(self, report: Report) -> bool:
        """The first stage, as another fit of these rows has found it or anew; whether the fit is to stop."""
        if not self.ranks:
            self._state = self._start()
            return self._converged(report)
        shared = self.main_stage
        with shared.lock:
            if shared.state is not None:
                self._state, self.settled = shared.state.copy(self.columns), shared.settled
                return False
            self._state = self._start()
            stopped = self._stage(1, report)
            if not stopped:
                shared.state, shared.settled = self._state.copy(self.columns), self.settled
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
        """The fits of complete stages and, of the one at work, the fit as it is; none before it has begun."""
        finished = len(self.fits) == len(self.orders)
        if finished or not hasattr(self, "_state") or self._unripe(self.orders[len(self.fits)]):
            return self.fits
        return [*self.fits, self.fit()]

    def _unripe(self, order: int) -> bool:
        """Whether the factors of a stage are too new to be of use: they begin without their uncertainty."""
        return order > 1 and self._sweeps < min(self.schedule.fewest, self.schedule.most(order, max(self.ranks)))

    def expected_sums(self, posteriors: Sequence[Posterior]) -> list[list[BlockSums]]:
        """Sums over the rows for every column of every linear predictor, with the partners' variances in."""
        rows = self._rows().working(self._state.response, self.additive.rows)
        linear_predictors = [LinearPredictor(posterior) for posterior in posteriors]
        state = replace(self._state, rows=rows, linear_predictors=linear_predictors, _sweeper=None)
        tempering, found = self._tempering(), []
        for k, posterior in enumerate(posteriors):
            rows.move(k, posterior.intercept, posterior.smooth.coef)
            state.set_columns(k, tempering)
        rows.evaluate()
        for k, linear_predictor in enumerate(state.linear_predictors):
            rows.linearise(k)
            own = []
            for j in range(len(linear_predictor.blocks)):
                moments = linear_predictor.moments(j)
                sums = rows.swap(k, None, moments)
                assert sums is not None
                own.append(sums)
                rows.swap(k, moments, None)
            found.append(own)
        return found

    def _grow(self, report: Report) -> bool:
        """More factors for pairs while there is something left for them; whether the fit is to stop."""
        for times in range(1, MOST_GROWTHS + 1):
            if has_idle_factors(self._state):
                break
            gradients = [self._state.rows.gradient(k) for k in range(len(self._state.linear_predictors))]
            found = [Spectrum.of(self.columns, self.codes, gradient) for gradient in gradients]
            if max(spectrum.n_found for spectrum in found) < MORE_FACTORS_FROM:
                break
            before = self._state.copy()
            try:
                self._add_factors(2)
                if self._stage(2, report, times):
                    if self._unripe(2):
                        self._state, self._sweeps = before, self.schedule.fewest
                    return True
            except FailedError:
                self._state = before
                break
        return False

    def _add_factors(self, order: int) -> None:
        if order == PRODUCT:
            rank, reweighted = self.ranks[order], self.reweighted
            add_products(self._state, self.columns, self.codes, rank, self.rng, reweighted=reweighted)
            return
        spectrum = partial(self._spectrum, first=len(self.fits) == 1)
        add_factors(self._state, self.columns, order, self.ranks[order], self.rng, spectrum, surfaces=self.surfaces)

    def _spectrum(self, k: int, first: bool) -> Spectrum:
        """Of the residual's covariance with products of functions; that of main effects is made once for all fits."""
        gradient = self._state.rows.gradient(k)
        if self.reweighted:
            gradient = gradient * self.rng.exponential(size=len(gradient))
        if self.reweighted or not first:
            return Spectrum.of(self.columns, self.codes, gradient)
        with self.main_stage.lock:
            if k not in self.main_stage.spectra:
                self.main_stage.spectra[k] = Spectrum.of(self.columns, self.codes, gradient)
            return self.main_stage.spectra[k]

    def _stage(self, order: int, report: Report, grown: int = 0) -> bool:
        """Sweep until the loss settles; whether the fit is to stop."""
        self._sweeps = 0
        try:
            return self._settle(order, report, grown)
        except StoppedError:
            return True

    def _settle(self, order: int, report: Report, grown: int) -> bool:
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
            self._sweeps, value = number + 1, state.objective()
            if judged and not (state.risen(began) <= DIVERGED and state.largest() <= LARGEST_VALUE):
                raise FailedError("sweeps diverge")
            change = abs(float(np.log(value / before))) if state.response.quadratic else abs(value - before)
            stopped = report(Sweep(order, number, value, change, grown))
            settled = settled + 1 if change < schedule.tol else 0
            if stopped or (order > 1 and number + 1 >= schedule.fewest and settled >= 3):
                break
        if not state.response.quadratic and not stopped:
            self._build(used)  # linear predictors of the posterior, without the rounding of all that was removed
        if judged and not stopped and not state.risen(began, ends=True) <= HARMFUL:
            raise FailedError("new factors raise the loss")
        self.settled = change < schedule.tol
        return stopped

    def _converged(self, report: Report) -> bool:
        """Main effects alone; whether the fit is to stop.

        1. Sweeps that update smoothing parameters and dispersion. They are few: where a code has one row, smoothing
           parameters that follow the dispersion, and a dispersion that follows them, may end at interpolation.
        2. Sweeps with both as they are, until predictions change no more: the one optimum of that problem.
        """
        try:
            return self._settle_mains(report)
        except StoppedError:
            return True

    def _settle_mains(self, report: Report) -> bool:
        schedule, state, settled, stopped = self.schedule, self._state, 0, False
        for number in range(schedule.learning + schedule.alone):
            if number % schedule.rebuild == 0:
                self._build(1.0)  # main effects have no partners: all of their variance counts as noise
            before, backwards = state.objective(), number % 2 == 1
            state.rows.mark()
            if number < schedule.learning:
                if number in FAMILY_SWEEPS:
                    state.learn_parameters()
                state.sweep(learn=True, backwards=backwards, floor=0.0)
            else:
                state.settle(backwards=backwards)
                settled = settled + 1 if self._moved() < SETTLED else 0
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

    def _moved(self) -> float:
        """Root mean square of the change of the linear predictors, in units of the standard deviation of a row."""
        return float(np.sqrt(self._state.rows.moved() / self._state.noise))

    def _build(self, tempering: float) -> None:
        """Row states from scratch; the backend's own sweeps begin with them."""
        if not self._state.sweeps_alone and self.sweeps_alone:
            self._state.begin()
        self._state.build(tempering)

    def _rows(self) -> Rows:
        return self.backend.load(ArraySource(self.codes), self.executor, self.precision)

    def _tempering(self) -> float:
        return self.tempering(self._state.objective() if self.response.floor is not None else 1.0)

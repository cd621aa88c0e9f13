"""A staged fit: main effects, then pairs, then triples, each stage from where the last one ended.

Mean-field variational Bayes by coordinate ascent over columns. eta is affine in all functions of one column, so given
the posterior of the others, a column's posterior is one exact solve; its variances then enter the problems of the
others. That prunes: a factor that the rows do not support has partners of small mean and large variance.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from ahofm.backends import (
    Backend,
    FailedError,
    Precision,
    Response,
    Rows,
    SweepingBackend,
    backend_of,
    never,
)
from ahofm.columns import Codes
from ahofm.columns.basis import Floats
from ahofm.fit.solvers.variational.coordinate_ascent import VariationalState
from ahofm.fit.solvers.variational.init import add_factors, add_products, has_idle_factors
from ahofm.fit.solvers.variational.main_effects import AdditiveDesign
from ahofm.fit.solvers.variational.posterior import Fit, LinearPredictor, Posterior, WarmStart
from ahofm.fit.solvers.variational.schedule import Job, Schedule
from ahofm.fit.solvers.variational.stage import MainStage, Reference, Report, Stage, Tempering
from ahofm.kernels import BlockSums
from ahofm.orders import PRODUCT, Orders
from ahofm.priors.arrays import prior_kind
from ahofm.priors.column import ColumnPriors
from ahofm.rows import ArraySource, Executor
from ahofm.training.factor_groups import ColumnGroup, FactorGroups
from ahofm.training.spectrum import Spectrum
from ahofm.tuning import FEWEST_GROWTH_EIGENVALUES, MOST_GROWTHS


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
    executor : Executor
        Runs the passes over the rows.
    schedule : Schedule
    fits : list of Fit
        Results of the stages so far.
    posteriors : list of tuples of Posterior
        Those of every linear predictor at the end of each stage.
    converged : bool
        Whether the last sweeps have converged.
    growing : bool
        Whether pairs get more factors as long as they leave something to explain.
    tensor_smoothing : bool
        Whether pairs have tensor product penalties, with two smoothing parameters per pair of columns.
    backend : Backend
        Computes on the rows.
    precision : "float32" or "float64"
        Of row states, at least.
    stop : function
        Called between columns; the fit ends there if it returns True, e.g. after a deadline.
    complete : bool
        Whether all stages came to their end.
    groups : FactorGroups
        Columns of each factor.
    main_tempering : function, optional
        Of main effects, where it is another one.
    main_stage : MainStage
        Shared with other fits of the same rows.
    released : bool
        Whether the state was deleted, so that the fit cannot be continued.
    warm_starts : dict of order to WarmStart
        From which the stages of orders from 2 on start: those of a fit with the same priors to other rows.
    offers_warm_starts : bool
        Whether warm starts for other fits are kept when memory is released, in ``offered``.
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
    groups: FactorGroups
    schedule: Schedule = field(default_factory=Schedule)
    fits: list[Fit] = field(default_factory=list)
    posteriors: list[tuple[Posterior, ...]] = field(default_factory=list)
    converged: bool = False
    growing: bool = False
    tensor_smoothing: bool = True
    backend: Backend = field(default_factory=backend_of)
    precision: Precision = "float64"
    stop: Callable[[], bool] = never
    complete: bool = False
    main_stage: MainStage = field(default_factory=MainStage)
    main_tempering: Tempering | None = None
    released: bool = False
    warm_starts: Mapping[int, WarmStart] = field(default_factory=dict)
    offers_warm_starts: bool = False
    offered: dict[int, WarmStart] = field(default_factory=dict)
    _sweeps: int = field(init=False, default=0)
    _state: VariationalState = field(init=False)

    @property
    def job(self) -> Job:
        """Expected cost of the fit."""
        schedule = self.schedule.warm_started() if self.warm_starts else self.schedule
        return Job(self.response.n_rows, self.ranks, schedule)

    def cost_left(self, highest: int | None = None) -> float:
        """Expected cost of the stages that have not been fitted, up to order ``highest``."""
        job = self.job
        left = [stage for stage in job.stages[len(self.fits) :] if highest is None or stage[0] <= highest]
        return sum(job.cost(factors, job.sweeps(order)) for order, factors in left)

    @property
    def backend_sweeps(self) -> bool:
        """Whether the backend does whole sweeps by itself, without Python's lock."""
        kinds = [prior_kind(prior) for column in self.columns for prior in (column.main, column.factors)]
        return isinstance(self.backend, SweepingBackend) and self.backend.sweeps(self.response, kinds)

    @property
    def damped(self) -> int:
        """Number of steps without sufficient decrease."""
        return self._state.damped

    @property
    def orders(self) -> tuple[int, ...]:
        """Orders of the stages: 1, and those that have factors."""
        return 1, *self.ranks

    def run(self, report: Report, highest: int | None = None) -> list[Fit]:
        """The fits at orders 1, 2, ...: the last of them is the fit. A stage that fails leaves the one below it.

        So does a stage that is stopped after too few sweeps: the first ones ignore the variances of factors. With
        ``highest`` it ends after the stage of that order; another call goes on from there.
        """
        for order in self.orders[len(self.fits) :]:
            if highest is not None and order > highest:
                break
            before = self._state.copy() if self.fits else None
            try:
                if before is None:
                    stopped = self._fit_main_effects(report)
                else:
                    stopped = self._fit_interactions(order, report, before)
            except FailedError:
                if before is None:
                    raise
                self._state = before
                self.fits.append(self.fits[-1])
                self.posteriors.append(self.posteriors[-1])
                continue
            if stopped and self._too_few_sweeps(order):
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

    def _fit_interactions(self, order: int, report: Report, before: VariationalState) -> bool:
        """The stage of an order, from ``before`` or from another fit; returns whether the fit is to stop.

        A warm start that fails, or has other numbers of factors than this fit by now, is left for factors of its own.
        """
        stopped = None
        start = self.warm_starts.get(order)
        if start is not None and self._suits(start, order):
            reference = self._state.reference()
            self._state.warm_start(start)
            try:
                stopped = self._stage(order, report, reference=reference)
            except FailedError:
                self._state = before.copy()
        if stopped is None:
            self._add_factors(order)
            stopped = self._stage(order, report)
        return self._grow(report) if order == 2 and self.growing and not stopped else stopped

    def _suits(self, start: WarmStart, order: int) -> bool:
        """Whether the fit that a warm start is of has the same factors and the same smooth main effects."""
        ranks = Orders(self.ranks).up_to(order)
        present = self._state.linear_predictors[0].posterior.ranks
        same = Orders(start.ranks) == ranks and all(rank == ranks[d] for d, rank in present.items())
        return same and len(start.centre) == self.additive.size

    def _start(self) -> VariationalState:
        state = VariationalState.start(self._rows(), self.response, self.additive, self.columns)
        state.stop = self.stop
        return state

    def _fit_main_effects(self, report: Report) -> bool:
        """The first stage, copied from another fit of these rows if possible; returns whether the fit is to stop."""
        if not self.ranks:
            self._state = self._start()
            stage = self._new_stage()
            stopped = stage.run_main_effects(report)
            self.converged = stage.converged
            return stopped
        shared = self.main_stage
        with self._locked(shared.lock):
            if shared.state is not None:
                self._state, self.converged = shared.state.copy(self.columns), shared.converged
                return False
            self._state = self._start()
            stopped = self._stage(1, report)
            if not stopped:
                shared.state, shared.converged = self._state.copy(self.columns), self.converged
            return stopped

    @contextmanager
    def _locked(self, lock: threading.Lock) -> Iterator[None]:
        """Hold a lock; while the fit waits for it, others have its thread."""
        budget = getattr(self.executor, "budget", None)
        if not lock.acquire(blocking=False):
            if budget is not None:
                budget.occupy(-1)
            lock.acquire()
            if budget is not None:
                budget.occupy(1)
        try:
            yield
        finally:
            lock.release()

    def release(self) -> None:
        """Release all memory but the results; the fit cannot be continued then."""
        if self.offers_warm_starts:
            self.offered = {
                order: WarmStart.of(posteriors, self.additive.rows.centre, fit[0].dispersion)
                for order, fit, posteriors in zip(self.orders, self.fits, self.posteriors, strict=False)
                if order > 1 and order in fit[0].orders  # the stage has not failed
            }
        self.posteriors, self.released = [], True
        del self._state

    def fit(self) -> Fit:
        """The fit as it is: also in the middle of a sweep, once every column has been solved."""
        state = self._state
        state.sync_posteriors()
        results = [
            linear_predictor.frozen().stage_result(self.additive, state.dispersion)
            for linear_predictor in state.linear_predictors
        ]
        fit = tuple(result for result in results if result is not None)
        return fit if len(fit) == len(results) else self.fits[-1]

    def fits_so_far(self) -> list[Fit]:
        """Fits of complete stages and, for the running one, its present state."""
        finished = len(self.fits) == len(self.orders)
        if finished or not hasattr(self, "_state") or self._too_few_sweeps(self.orders[len(self.fits)]):
            return self.fits
        return [*self.fits, self.fit()]

    def _too_few_sweeps(self, order: int) -> bool:
        """Whether a stage has made too few sweeps: the first ones ignore the variance of its factors."""
        return order > 1 and self._sweeps < min(self.schedule.fewest, self.schedule.most(order, max(self.ranks)))

    def expected_sums(self, posteriors: Sequence[Posterior]) -> list[list[BlockSums]]:
        """Sums over the rows with the variances of partners, by linear predictor and column."""
        rows = self._rows().working(self._state.response, self.additive.rows)
        linear_predictors = [LinearPredictor(posterior) for posterior in posteriors]
        state = replace(self._state, rows=rows, linear_predictors=linear_predictors, _sweeper=None)
        tempering, all_sums = self._new_stage().current_tempering(), []
        for k, posterior in enumerate(posteriors):
            rows.set_main_effects(k, posterior.intercept, posterior.smooth.coef)
            state.set_columns(k, tempering)
        rows.evaluate()
        for k, linear_predictor in enumerate(state.linear_predictors):
            rows.linearise(k)
            sums_of_columns = []
            for j in range(len(linear_predictor.blocks)):
                moments = linear_predictor.moments(j)
                sums = rows.swap(k, None, moments)
                assert sums is not None
                sums_of_columns.append(sums)
                rows.swap(k, moments, None)
            all_sums.append(sums_of_columns)
        return all_sums

    def _grow(self, report: Report) -> bool:
        """Add factors of pairs while the residuals' covariance exceeds that of noise; returns whether to stop.

        That is while at least ``FEWEST_GROWTH_EIGENVALUES`` of its eigenvalues exceed those of random signs, at most
        ``MOST_GROWTHS`` times, and while no factor is idle.
        """
        for n_growths in range(1, MOST_GROWTHS + 1):
            if has_idle_factors(self._state):
                break
            gradients = [self._state.rows.gradient(k) for k in range(len(self._state.linear_predictors))]
            groups, fewest = self.groups.of_order(2), FEWEST_GROWTH_EIGENVALUES
            spectra = [self._spectrum_of(group, gradient, fewest) for gradient in gradients for group in groups]
            if max(spectrum.n_above_null for spectrum in spectra) < fewest:
                break
            before = self._state.copy()
            try:
                self._add_factors(2)
                if self._stage(2, report, n_growths):
                    if self._too_few_sweeps(2):
                        self._state, self._sweeps = before, self.schedule.fewest
                    return True
            except FailedError:
                self._state = before
                break
        return False

    def _add_factors(self, order: int) -> None:
        if order == PRODUCT:
            rank, reweighted = self.ranks[order], self.reweighted
            add_products(
                self._state, self.columns, self.codes, rank, self.rng, reweighted=reweighted, groups=self.groups
            )
            return
        spectrum = partial(self._spectrum, first=len(self.fits) == 1)
        arguments = self._state, self.columns, order, self.ranks[order], self.rng, spectrum
        add_factors(*arguments, tensor_smoothing=self.tensor_smoothing, groups=self.groups)

    def _spectrum(self, k: int, group: ColumnGroup, count: int, first: bool) -> Spectrum:
        """Of the residual's covariance with products of functions; that of main effects is made once for all fits."""
        gradient = self._state.rows.gradient(k)
        if self.reweighted:
            gradient = gradient * self.rng.exponential(size=len(gradient))
        if self.reweighted or not first:
            return self._spectrum_of(group, gradient, count)
        with self._locked(self.main_stage.lock):
            if (k, group, count) not in self.main_stage.spectra:
                self.main_stage.spectra[k, group, count] = self._spectrum_of(group, gradient, count)
            return self.main_stage.spectra[k, group, count]

    def _spectrum_of(self, group: ColumnGroup, gradient: Floats, count: int) -> Spectrum:
        return Spectrum.of([self.columns[j] for j in group], self.codes.of_columns(group), gradient, count)

    def _stage(self, order: int, report: Report, n_growths: int = 0, reference: Reference | None = None) -> bool:
        """The sweeps of a stage, warm-started if a reference is given; returns whether the fit is to stop."""
        stage = self._new_stage()
        if reference is not None:
            stage.schedule = self.schedule.warm_started()
        self._sweeps = 0
        try:
            stopped = stage.run(order, max(self.ranks, default=1), report, n_growths, reference)
        finally:
            self._sweeps = stage.number
        self.converged = stage.converged
        return stopped

    def _new_stage(self) -> Stage:
        first = self.main_tempering if self.main_tempering is not None and not self.fits else self.tempering
        return Stage(self._state, self.schedule, first, self.backend_sweeps)

    def _rows(self) -> Rows:
        return self.backend.load(ArraySource(self.codes), self.executor, self.precision)

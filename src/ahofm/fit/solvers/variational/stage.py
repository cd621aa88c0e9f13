"""The sweeps of one stage of a fit, until its objective converges."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from ahofm.backends import FailedError, StoppedError
from ahofm.fit.solvers.variational.coordinate_ascent import VariationalState
from ahofm.fit.solvers.variational.schedule import Schedule
from ahofm.training.factor_groups import ColumnGroup
from ahofm.training.spectrum import Spectrum
from ahofm.tuning import (
    CONVERGED_CHANGE,
    CONVERGED_SWEEPS,
    DIVERGED_RATIO,
    FAILED_RATIO,
    FAMILY_SWEEPS,
    LARGEST_FUNCTION_VALUE,
    TEMPERING_CHANGE,
    WARM_DISPERSION_RATIO,
)


@dataclass(frozen=True)
class Sweep:
    """One sweep over all columns.

    Attributes
    ----------
    order, number : int
        Order of its stage, and its number in the stage.
    value : float
        The objective after it: dispersion of the standardised target, or the fraction of the loss that remains.
    change : float
        Change of the objective, or of its logarithm for least squares.
    n_growths : int
        Number of times that factors have been added to the order.
    """

    order: int
    number: int
    value: float
    change: float
    n_growths: int = 0


Tempering: TypeAlias = Callable[[float], float]
"""The tempering as a function of the remaining fraction of the loss, which is 1 where there is no lower bound."""

Reference: TypeAlias = tuple[float, float]
"""Objective and dispersion that a stage is compared with."""

Report: TypeAlias = Callable[[Sweep], bool]
"""Called after every sweep; the fit ends with what it has when it returns True."""


@dataclass
class MainStage:
    """Main effects of some rows before interactions are added: the same for all candidates of one tempering.

    The first staged fit that needs them fits them; others wait for it.

    Attributes
    ----------
    state : VariationalState or None
        None before they are fitted.
    converged : bool
        Whether the last sweeps have converged.
    spectra : dict of (k, group of columns, count) to Spectrum
        Of the residuals of linear predictor k: at least ``count`` eigenvectors.
    lock : Lock
        Held by the staged fit that computes one of these.
    """

    state: VariationalState | None = None
    converged: bool = False
    spectra: dict[tuple[int, ColumnGroup, int], Spectrum] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)


@dataclass
class Stage:
    """Sweeps of one stage.

    Attributes
    ----------
    state : VariationalState
    schedule : Schedule
    tempering : Tempering
    backend_sweeps : bool
        Whether the backend can do whole sweeps by itself.
    number : int
        Sweeps so far.
    converged : bool
        Whether the last sweeps changed the objective by less than the tolerance.
    """

    state: VariationalState
    schedule: Schedule
    tempering: Tempering
    backend_sweeps: bool
    number: int = 0
    converged: bool = False

    def run(
        self, order: int, highest: int, report: Report, n_growths: int = 0, reference: Reference | None = None
    ) -> bool:
        """Sweep until the objective converges; returns whether the fit is to stop.

        Raises FailedError where new factors make the fit diverge, or end with a higher loss than ``reference``: by
        default that of the state as it is.
        """
        try:
            return self._run(order, highest, report, n_growths, reference or self.state.reference())
        except StoppedError:
            return True

    def _run(self, order: int, highest: int, report: Report, n_growths: int, reference: Reference) -> bool:
        schedule, state = self.schedule, self.state
        used_tempering, unchanged, stopped, change = -1.0, 0, False, np.inf
        may_fail = schedule.fails_on_increase and order > 1
        for number in range(schedule.most(order, highest)):
            warm = order > 1 and number < schedule.warm
            tempering = 0.0 if warm else self.current_tempering()
            tempering_changed = abs(tempering - used_tempering) > TEMPERING_CHANGE * tempering
            if used_tempering < 0.0 or tempering_changed or number % schedule.rebuild == 0:
                used_tempering = tempering
                self._build(tempering)
            before = state.objective()
            if number in FAMILY_SWEEPS:
                state.learn_parameters()
            floor = WARM_DISPERSION_RATIO * state.dispersion if warm else 0.0
            state.sweep(update_lam=not warm, backwards=number % 2 == 1, floor=floor)
            self.number, value = number + 1, state.objective()
            if may_fail and self._diverged(reference):
                raise FailedError("sweeps diverge")
            change = self._change(before, value)
            stopped = report(Sweep(order, number, value, change, n_growths))
            unchanged = unchanged + 1 if change < schedule.tol else 0
            if stopped or (order > 1 and number + 1 >= schedule.fewest and unchanged >= CONVERGED_SWEEPS):
                break
        if not state.response.quadratic and not stopped:
            self._build(used_tempering)  # without the rounding errors of columns that were added and removed
            state.refresh_dispersion()
        if may_fail and not stopped and not state.objective_ratio(reference, ends=True) <= FAILED_RATIO:
            raise FailedError("new factors raise the loss")
        self.converged = change < schedule.tol
        return stopped

    def run_main_effects(self, report: Report) -> bool:
        """Main effects alone, to convergence; returns whether the fit is to stop.

        1. Sweeps that update smoothing parameters and dispersion. They are few: where a code has one row, smoothing
           parameters that follow the dispersion, and a dispersion that follows them, may end at interpolation.
        2. Sweeps with both fixed, until predictions change no more: the unique optimum of that convex problem.
        """
        try:
            return self._run_main_effects(report)
        except StoppedError:
            return True

    def _run_main_effects(self, report: Report) -> bool:
        schedule, state, unchanged, stopped = self.schedule, self.state, 0, False
        for number in range(schedule.learning + schedule.coefficients):
            if number % schedule.rebuild == 0:
                self._build(1.0)  # main effects have no partners: all of their variance counts as noise
            before, backwards = state.objective(), number % 2 == 1
            state.rows.keep_eta()
            if number < schedule.learning:
                if number in FAMILY_SWEEPS:
                    state.learn_parameters()
                state.sweep(update_lam=True, backwards=backwards, floor=0.0)
            else:
                state.sweep_coefficients(backwards=backwards)
                unchanged = unchanged + 1 if self._rms_change() < CONVERGED_CHANGE else 0
            value = state.objective()
            stopped = report(Sweep(1, number, value, self._change(before, value)))
            if stopped or unchanged >= CONVERGED_SWEEPS:
                break
        self.converged = unchanged > 0
        return stopped

    def current_tempering(self) -> float:
        """The tempering at the present objective."""
        state = self.state
        return self.tempering(state.objective() if state.response.floor is not None else 1.0)

    def _diverged(self, reference: Reference) -> bool:
        """Whether the objective, the dispersion or a function has become too large; also if it is NaN."""
        state = self.state
        return not (
            state.objective_ratio(reference) <= DIVERGED_RATIO and state.largest_value() <= LARGEST_FUNCTION_VALUE
        )

    def _change(self, before: float, value: float) -> float:
        """Size of the change of the objective; of its logarithm, for least squares."""
        return abs(float(np.log(value / before))) if self.state.response.quadratic else abs(value - before)

    def _rms_change(self) -> float:
        """Root mean square change of the linear predictors in a sweep, in units of the standard deviation of a row."""
        return float(np.sqrt(self.state.rows.mean_squared_change() / self.state.dispersion))

    def _build(self, tempering: float) -> None:
        """Row states from scratch; the backend's own sweeps begin with them."""
        if self.backend_sweeps and not self.state.has_sweeper:
            self.state.start_sweeper()
        self.state.build(tempering)

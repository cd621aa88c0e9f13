"""Adam on mini-batches with early stopping (Kingma and Ba, 2015), as in the paper.

An iteration is an epoch. The step length falls when the validation loss has not improved for a while, and the
coefficients of the best epoch are the ones that are kept.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ahofm.columns.basis import Floats
from ahofm.fit.solvers.base import Objective, State
from ahofm.model import Reason
from ahofm.tuning.penalised import ADAM_DECAYS, ADAM_EPSILON, BATCHES, LARGEST_BATCH, SMALLEST_BATCH


@dataclass(frozen=True)
class Moments:
    """Running means of the gradient and of its square, over so many updates."""

    first: Floats
    second: Floats
    updates: int = 0

    def updated(self, gradient: Floats) -> Moments:
        """The moments after one more gradient: ``m = b1 m + (1 - b1) g`` and ``v = b2 v + (1 - b2) g^2``."""
        beta1, beta2 = ADAM_DECAYS
        first = beta1 * self.first + (1.0 - beta1) * gradient
        second = beta2 * self.second + (1.0 - beta2) * gradient**2
        return Moments(first, second, self.updates + 1)

    @property
    def step(self) -> Floats:
        """The step ``-m / (sqrt(v) + epsilon)`` with bias-corrected moments, at most about 1 in each coordinate."""
        beta1, beta2 = ADAM_DECAYS
        m, v = self.first / (1.0 - beta1**self.updates), self.second / (1.0 - beta2**self.updates)
        return np.asarray(-m / (np.sqrt(v) + ADAM_EPSILON))


@dataclass(frozen=True, kw_only=True)
class AdamState(State):
    """With the moments of the gradient, the length of a step, and how long ago the best epoch was."""

    moments: Moments
    rate: float
    epoch: int = 0
    best_score: float = np.inf
    waited: int = 0


@dataclass(frozen=True)
class Adam:
    """Adam.

    Parameters
    ----------
    validation : Objective, optional
        On validation rows; without it the training objective decides when to stop.
    learning_rate : float
        Length of a step, relative to the coefficient that changes the linear predictor by about one standard deviation.
    batch_rows : int, optional
        Rows of a mini-batch; by default 1/32 of the rows, between 32 and 8,192.
    patience : int
        Epochs without improvement after which it stops. After a third of them without any the rate is halved.
    seed : int
        Of the order of the rows.
    tol : float
        Relative improvement of the score that counts as one.
    """

    validation: Objective | None = None
    learning_rate: float = 0.02
    batch_rows: int | None = None
    patience: int = 50
    seed: int = 0
    tol: float = 1e-6
    name: str = "adam"

    def init(self, objective: Objective, theta: Floats) -> AdamState:
        """One pass, and one over the validation rows."""
        value, gradient = objective.value_and_gradient(theta)
        moments = Moments(np.zeros(len(theta)), np.zeros(len(theta)))
        state = AdamState(theta, value, gradient, theta, moments=moments, rate=self.learning_rate)
        return self._with_score(objective, state)

    def step(self, objective: Objective, state: AdamState) -> AdamState:
        """An epoch: one pass in mini-batches and one for the objective, and one over the validation rows."""
        unit = np.sqrt(objective.total) * objective.scale  # a coefficient of 1 in these units moves eta by about 1
        rows = self.batch_rows or int(np.clip(objective.rows.n_rows // BATCHES, SMALLEST_BATCH, LARGEST_BATCH))
        theta, moments = state.theta, state.moments
        for gradient_at in objective.batches(rows, np.random.default_rng([self.seed, state.epoch])):
            moments = moments.updated(gradient_at(theta) * unit / objective.total)
            theta = theta + state.rate * unit * moments.step
        value, gradient = objective.value_and_gradient(theta)
        new = replace(state, theta=theta, value=value, gradient=gradient, moments=moments, epoch=state.epoch + 1)
        return self._with_score(objective, new)

    def _with_score(self, objective: Objective, state: AdamState) -> AdamState:
        """The state with its validation loss, the best coefficients so far, the step length and the reason to stop."""
        validation = None if self.validation is None else self.validation.loss(state.theta) / self.validation.total
        score = state.value / objective.total if validation is None else validation
        if not np.isfinite(score):
            return replace(state, validation=validation, reason=Reason.DIVERGED)
        if score < state.best_score:
            enough = self.tol * abs(score)  # less is no reason to go on, but still better
            waited = 0 if score < state.best_score - enough else state.waited + 1
            state = replace(state, best=state.theta, best_score=score, waited=waited)
        else:
            state = replace(state, waited=state.waited + 1)
        halve = state.waited > 0 and state.waited % max(self.patience // 3, 1) == 0
        return replace(
            state,
            validation=validation,
            rate=0.5 * state.rate if halve else state.rate,
            reason=Reason.EARLY_STOPPED if state.waited >= self.patience else None,
        )

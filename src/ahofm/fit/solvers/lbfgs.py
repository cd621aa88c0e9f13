"""Limited-memory BFGS over all coefficients, full batch (Nocedal and Wright, 2006, algorithm 7.5).

SciPy's implementation cannot be stepped, observed or resumed, and starts from a multiple of the identity; here the
initial inverse Hessian has the scale of the coefficients.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ahofm.columns.basis import Floats
from ahofm.fit.solvers.base import Objective, State
from ahofm.model import Reason
from ahofm.tuning.penalised import FLATTER_SLOPE, LEAST_BRACKET, LEAST_CURVATURE, LINE_SEARCH_STEPS, SUFFICIENT_SLOPE

Evaluated = tuple[Floats, float, Floats]
"""Coefficients, the objective there and its gradient."""


@dataclass(frozen=True)
class LbfgsState(State):
    """With the last moves and the changes of the gradient they made, in the solver's coordinates."""

    moves: tuple[Floats, ...] = ()
    changes: tuple[Floats, ...] = ()


@dataclass(frozen=True)
class Lbfgs:
    """Quasi-Newton steps with a weak Wolfe line search.

    Parameters
    ----------
    memory : int
        Number of moves remembered.
    """

    memory: int = 20
    name: str = "lbfgs"

    def init(self, objective: Objective, theta: Floats) -> LbfgsState:
        """One pass."""
        value, gradient = objective.value_and_gradient(theta)
        return LbfgsState(theta, value, gradient, theta)

    def step(self, objective: Objective, state: LbfgsState) -> LbfgsState:
        """As many passes as the line search takes, usually one."""
        scale = objective.scale
        direction = _direction(state, scale)
        slope = float(direction @ (state.gradient * scale))
        if not slope < 0.0:
            return replace(state, reason=Reason.NO_PROGRESS)

        def evaluate(t: float) -> Evaluated:
            theta = state.theta + t * scale * direction
            return (theta, *objective.value_and_gradient(theta))

        new = wolfe_search(evaluate, state.value, slope, scale * direction)
        if new is None:
            if state.moves:  # start again from the gradient
                return replace(state, moves=(), changes=())
            return replace(state, reason=Reason.NO_PROGRESS)
        theta, value, gradient = new
        move, change = (theta - state.theta) / scale, (gradient - state.gradient) * scale
        moves, changes = state.moves, state.changes
        if move @ change > LEAST_CURVATURE * (change @ change):
            moves, changes = (*moves, move)[-self.memory :], (*changes, change)[-self.memory :]
        return LbfgsState(theta, value, gradient, theta, moves=moves, changes=changes)


def _direction(state: LbfgsState, scale: Floats) -> Floats:
    """Minus the approximate inverse Hessian times the gradient."""
    pairs = list(zip(state.moves, state.changes, strict=True))

    def scaled(rest: Floats, _: Sequence[float]) -> Floats:
        s, y = pairs[-1]
        return np.asarray(rest * ((s @ y) / (y @ y)))

    gradient = state.gradient * scale
    return -two_loops(gradient, pairs, scaled if pairs else lambda rest, _: rest)


def two_loops(
    gradient: Floats,
    pairs: Sequence[tuple[Floats, Floats]],
    initial: Callable[[Floats, Sequence[float]], Floats],
) -> Floats:
    """The L-BFGS approximation of the inverse Hessian times a gradient of shape (P,).

    Parameters
    ----------
    gradient : array of shape (P,)
    pairs : sequence of (move, change of the gradient)
        Oldest first.
    initial : function of (rest, alphas)
        The initial inverse Hessian times ``rest = gradient - sum alpha_i change_i``; alphas are those of the pairs,
        newest first.
    """
    rest = gradient
    curvatures = [float(s @ y) for s, y in pairs]
    alphas: list[float] = []
    for (s, y), curvature in zip(reversed(pairs), reversed(curvatures), strict=True):
        alphas.append(float(s @ rest) / curvature)
        rest = rest - alphas[-1] * y
    out = initial(rest, alphas)
    for (s, y), curvature, alpha in zip(pairs, curvatures, reversed(alphas), strict=True):
        out = out + (alpha - float(y @ out) / curvature) * s
    return out


def wolfe_search(
    evaluate: Callable[[float], Evaluated], value: float, slope: float, direction: Floats
) -> Evaluated | None:
    """A step with the weak Wolfe conditions, by doubling and bisection of its length (Lewis and Overton, 2013).

    Parameters
    ----------
    evaluate : function of the step's length t
    value, slope : float
        The objective at t = 0 and its derivative by t.
    direction : array
        Derivative of the coefficients by t.

    Returns
    -------
    Evaluated or None
        None when no step lowers the value.
    """
    low, high, t = 0.0, np.inf, 1.0
    best: Evaluated | None = None
    for _ in range(LINE_SEARCH_STEPS):
        new = evaluate(t)
        if not new[1] <= value + SUFFICIENT_SLOPE * t * slope:  # NaN and infinity too
            high = t
        else:
            best = new
            if new[2] @ direction >= FLATTER_SLOPE * slope:
                break
            low = t
        t = 0.5 * (low + high) if np.isfinite(high) else 2.0 * t
        if high - low <= LEAST_BRACKET * high:
            break
    return best

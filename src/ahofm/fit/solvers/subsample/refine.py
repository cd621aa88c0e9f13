"""Quasi-Newton refinement on all rows, from a variational fit to a sample of them.

Limited-memory BFGS steps; each pass over the rows gives the objective and its gradient. The initial inverse Hessian is
not a multiple of the identity but the block solve of each column, with the curvature of the sample scaled up to all
rows. It is applied to gradients in two parts, by the values at the codes and Q times coefficients; gradients, and their
differences, are kept in that form.

More rows determine more, so the smoothing parameters of the sample smooth too much: they are estimated again between
descents, from the same curvature. Block solves that would move a factor by more than its own root mean square are
damped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ahofm.columns.basis import Floats
from ahofm.fit.solvers.base import Saved
from ahofm.fit.solvers.lbfgs import two_loops
from ahofm.fit.solvers.subsample.objective import RefinementObjective, Rows, posteriors_of
from ahofm.fit.solvers.variational.main_effects import AdditiveDesign
from ahofm.fit.solvers.variational.posterior import Posterior
from ahofm.fit.tuning import DESCENTS, ENOUGH_DECREASE, QUASI_NEWTON_MEMORY
from ahofm.kernels import BlockSums

Progress = Callable[[float, float], bool]
"""Told of the objective per unit of weight, and of what the step promised, after every pass; True ends it."""


def refined(
    posteriors: Sequence[Posterior],
    additive: AdditiveDesign,
    rows: Rows,
    sample: Rows,
    expected_sums: Sequence[Sequence[BlockSums]],
    noise: float,
    *,
    most_passes: int,
    progress: Progress,
    saved: Saved | None = None,
    name: str = "",
) -> list[Posterior]:
    """Posteriors whose coefficients and smoothing parameters are those of all rows; variances stay the sample's.

    ``expected_sums`` are the sums over the sample, for every linear predictor and column, with the partners' variances
    in. The state after every step is kept as ``name``.
    """
    objective = RefinementObjective(posteriors, additive, rows, sample, expected_sums, noise)
    found = None if saved is None else saved.get(name)
    u, passes, descent = objective.start, 1, 1
    steps: list[tuple[Floats, Floats, list[Floats]]] = []  # of u, of the gradient, of the slopes at the codes
    if found is None:
        value, slopes, gradient = objective.value(u)
        objective.damp(u, slopes)
    else:
        u, passes, descent, value, slopes, gradient, steps, learned = found
        objective.resume(learned)
    while passes < most_passes:
        direction = _direction(objective, u, gradient, slopes, steps)
        promise = -float(gradient @ direction)
        if not promise > 0.0:
            direction, steps = -objective.inverse(slopes, u), []
            promise = -float(gradient @ direction)
        if progress(value / rows.total, promise):
            break
        if promise < 2.0 * ENOUGH_DECREASE or passes * DESCENTS >= descent * most_passes:
            if descent == DESCENTS:
                break
            value, gradient = objective.learn(u, value, slopes)
            objective.damp(u, slopes)
            descent, steps = descent + 1, []
            continue
        step, better, tried = _descended(objective, u, value, direction, promise, most_passes - passes)
        passes += tried
        if better is None:
            if not steps:
                break
            steps = []  # the remembered curvature is misleading
            objective.damp(u, slopes)
            continue
        change = step * direction
        steps = [*steps[1 - QUASI_NEWTON_MEMORY :], (change, better[2] - gradient, _minus(better[1], slopes))]
        u, (value, slopes, gradient) = u + change, better
        if float(steps[-1][0] @ steps[-1][1]) <= 0.0:
            steps.pop()
        if saved is not None:
            saved.put(name, (u, passes, descent, value, slopes, gradient, steps, objective.learned))
    return posteriors_of(posteriors, additive, objective, u)


def _descended(
    objective: RefinementObjective, u: Floats, value: float, direction: Floats, promise: float, most: int
) -> tuple[float, tuple[float, list[Floats], Floats] | None, int]:
    """Length of a step with sufficient decrease, the objective there, and the passes that it took."""
    step, passes = 1.0, 0
    while passes < most and step > 1e-3:
        new = objective.value(u + step * direction)
        passes += 1
        if new[0] <= value - 1e-4 * step * promise:
            return step, new, passes
        curved = new[0] - value + step * promise  # quadratic interpolation
        step *= float(np.clip(0.5 * step * promise / curved, 0.1, 0.5)) if np.isfinite(curved) else 0.1
    return step, None, passes


def _direction(
    objective: RefinementObjective,
    u: Floats,
    gradient: Floats,
    slopes: Sequence[Floats],
    steps: Sequence[tuple[Floats, Floats, list[Floats]]],
) -> Floats:
    """Two loops of L-BFGS around the block solves."""

    def block_solves(_: Floats, alphas: Sequence[float]) -> Floats:
        at_codes, coefficients = list(slopes), u.copy()
        for (move, _change, codes), alpha in zip(reversed(steps), alphas, strict=True):
            coefficients -= alpha * move
            at_codes = [mine - alpha * theirs for mine, theirs in zip(at_codes, codes, strict=True)]
        return objective.inverse(at_codes, coefficients)

    return -two_loops(gradient, [(move, change) for move, change, _ in steps], block_solves)


def _minus(new: Sequence[Floats], old: Sequence[Floats]) -> list[Floats]:
    return [a - b for a, b in zip(new, old, strict=True)]

"""Many rows: what some of them have taught, refined on all of them by passes that need nothing but gradients.

Limited-memory quasi-Newton steps. In the place of a multiple of the identity they start from the block solve of each
column, with the curvature of the sample scaled up to all rows. That inverse needs what it is applied to as a slope at
the codes plus Q times coefficients; slopes, and their differences, come in that form.

More rows determine more, so strengths of the sample smooth too much: they are learned again on the way, from the same
curvature. Block solves that would move a factor by more than its own size are damped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ahofm.columns.basis import Floats
from ahofm.fit.solvers.base import Saved
from ahofm.fit.solvers.subsample.objective import Problem, Rows, beliefs_of
from ahofm.fit.solvers.variational.main_effects import Additive
from ahofm.fit.solvers.variational.posterior import Belief
from ahofm.kernels import BlockSums

_MEMORY = 10
"""Steps that the quasi-Newton matrix remembers."""

_ENOUGH = 0.5
"""Ends when a step promises less, in units of log-likelihood: one coefficient's sampling error is as large."""

_DESCENTS = 4
"""Strengths are learned again after each but the last."""

Progress = Callable[[float, float], bool]
"""Told of the objective per unit of weight, and of what the step promised, after every pass; True ends it."""


def refined(
    beliefs: Sequence[Belief],
    additive: Additive,
    rows: Rows,
    sample: Rows,
    believed: Sequence[Sequence[BlockSums]],
    noise: float,
    *,
    most_passes: int,
    progress: Progress,
    saved: Saved | None = None,
    name: str = "",
) -> list[Belief]:
    """Beliefs whose coefficients and strengths are those of all rows; variances stay the sample's.

    ``believed`` are the sums over the sample, for every predictor and column, with the partners' variances in. The
    state after every step is kept as ``name``.
    """
    problem = Problem(beliefs, additive, rows, sample, believed, noise)
    found = None if saved is None else saved.get(name)
    u, passes, descent = problem.start, 1, 1
    steps: list[tuple[Floats, Floats, list[Floats]]] = []  # of u, of the gradient, of the slopes at the codes
    if found is None:
        value, slopes, gradient = problem.value(u)
        problem.damp(u, slopes)
    else:
        u, passes, descent, value, slopes, gradient, steps, learned = found
        problem.resume(learned)
    while passes < most_passes:
        direction = _direction(problem, u, gradient, slopes, steps)
        promise = -float(gradient @ direction)
        if not promise > 0.0:
            direction, steps = -problem.inverse(slopes, u), []
            promise = -float(gradient @ direction)
        if progress(value / rows.total, promise):
            break
        if promise < 2.0 * _ENOUGH or passes * _DESCENTS >= descent * most_passes:
            if descent == _DESCENTS:
                break
            value, gradient = problem.learn(u, value, slopes)
            problem.damp(u, slopes)
            descent, steps = descent + 1, []
            continue
        size, better, tried = _descended(problem, u, value, direction, promise, most_passes - passes)
        passes += tried
        if better is None:
            if not steps:
                break
            steps = []  # what was remembered of the curvature leads astray
            problem.damp(u, slopes)
            continue
        change = size * direction
        steps = [*steps[1 - _MEMORY :], (change, better[2] - gradient, _minus(better[1], slopes))]
        u, (value, slopes, gradient) = u + change, better
        if float(steps[-1][0] @ steps[-1][1]) <= 0.0:
            steps.pop()
        if saved is not None:
            saved.put(name, (u, passes, descent, value, slopes, gradient, steps, problem.learned))
    return beliefs_of(beliefs, additive, problem, u)


def _descended(
    problem: Problem, u: Floats, value: float, direction: Floats, promise: float, most: int
) -> tuple[float, tuple[float, list[Floats], Floats] | None, int]:
    """The size of a step that lowers the objective as promised, what is there, and the passes that it took."""
    size, passes = 1.0, 0
    while passes < most and size > 1e-3:
        new = problem.value(u + size * direction)
        passes += 1
        if new[0] <= value - 1e-4 * size * promise:
            return size, new, passes
        curved = new[0] - value + size * promise  # the parabola through both ends
        size *= float(np.clip(0.5 * size * promise / curved, 0.1, 0.5)) if np.isfinite(curved) else 0.1
    return size, None, passes


def _direction(
    problem: Problem,
    u: Floats,
    gradient: Floats,
    slopes: Sequence[Floats],
    steps: Sequence[tuple[Floats, Floats, list[Floats]]],
) -> Floats:
    """Two loops of L-BFGS around the block solves."""
    rest, at_codes, coefficients = gradient.copy(), list(slopes), u.copy()
    shares = []
    for change, bend, codes in reversed(steps):
        share = float(change @ rest) / float(change @ bend)
        shares.append(share)
        rest -= share * bend
        coefficients -= share * change
        at_codes = [mine - share * theirs for mine, theirs in zip(at_codes, codes, strict=True)]
    out = problem.inverse(at_codes, coefficients)
    for (change, bend, _), share in zip(steps, reversed(shares), strict=True):
        out += (share - float(bend @ out) / float(change @ bend)) * change
    return -out


def _minus(new: Sequence[Floats], old: Sequence[Floats]) -> list[Floats]:
    return [a - b for a, b in zip(new, old, strict=True)]

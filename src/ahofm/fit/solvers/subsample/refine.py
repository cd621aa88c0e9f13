"""Subsample fits: a variational fit to a sample of the rows, then quasi-Newton passes over all rows.

Limited-memory BFGS steps; each pass over the rows gives the objective and its gradient. The initial inverse Hessian is
not a multiple of the identity but the block solve of each column, with the curvature of the sample scaled up to all
rows. It is applied to gradients in two parts, by the values at the codes and Q times coefficients; gradients, and their
differences, are kept in that form.

More rows determine more, so the smoothing parameters of the sample smooth too much: they are estimated again between
descents, from the same curvature. Block solves that would move a factor by more than its root mean square are
damped.

Factors that the rows do not support are dropped before. Noise alone gives a term with f effective degrees of freedom a
variance of f over the rows' information. A factor whose term has much less, by the information of all rows, costs time
in every pass, and follows their noise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from ahofm.columns import known_codes
from ahofm.columns.basis import Floats
from ahofm.families.links import quiet
from ahofm.fit.solvers.lbfgs import two_loops
from ahofm.fit.solvers.subsample.objective import LossRows, RefinementObjective, tables_of
from ahofm.fit.solvers.variational.main_effects import AdditiveDesign
from ahofm.fit.solvers.variational.posterior import Fit, Posterior, StageResult
from ahofm.fit.solvers.variational.schedule import pass_cost
from ahofm.fit.solvers.variational.staged_fit import StagedFit
from ahofm.fit.stacking.problem import TrainingProblem
from ahofm.fit.stacking.weights import predict
from ahofm.kernels import BlockSums
from ahofm.kernels.symmetric import symmetric
from ahofm.model import Predictor
from ahofm.orders import Orders
from ahofm.priors.base import Coefficients, FunctionPosterior, bounded
from ahofm.priors.coefficient_block import CoefficientBlock
from ahofm.rows import ThreadExecutor, selected
from ahofm.training.case_control import sample_rows, sample_weight
from ahofm.training.data import array_source, pass_precision
from ahofm.training.runner import Runner, Saved
from ahofm.tuning.numerics import SHORTEST_STEP, STEP_RATIOS
from ahofm.tuning.penalised import SUFFICIENT_SLOPE
from ahofm.tuning.subsample import (
    DESCENTS,
    LEAST_PREDICTED_DECREASE,
    LEAST_SIGNAL_TO_NOISE,
    LOWER_ORDER_PASSES,
    PASSES,
    QUASI_NEWTON_MEMORY,
    SAMPLE_ROWS,
)

Progress = Callable[[float, float], bool]
"""Called after every pass with the objective per unit of weight and the predicted decrease; True ends the descent."""


def refined(
    posteriors: Sequence[Posterior],
    additive: AdditiveDesign,
    rows: LossRows,
    sample: LossRows,
    expected_sums: Sequence[Sequence[BlockSums]],
    dispersion: float,
    *,
    most_passes: int,
    progress: Progress,
    saved: Saved | None = None,
    name: str = "",
) -> tuple[list[Posterior], float]:
    """Posteriors whose coefficients and smoothing parameters are those of all rows; variances stay the sample's.

    ``expected_sums`` are the sums over the sample, for every linear predictor and column, with the partners' variances.
    The state after every step is kept as ``name`` in the checkpoint. Also returned: the sum of the losses of all rows.
    """
    objective = RefinementObjective(posteriors, additive, rows, sample, expected_sums, dispersion)
    checkpoint = None if saved is None else saved.get(name)
    u, passes, descent, length = objective.start, 1, 1, 1.0
    steps: list[tuple[Floats, Floats, list[Floats]]] = []  # of u, of the gradient, of the slopes at the codes
    if checkpoint is None:
        value, slopes, gradient = objective.value_and_gradient(u)
        objective.damp(u, slopes)
    else:
        u, passes, descent, length, value, slopes, gradient, steps, lam_and_damping = checkpoint
        objective.restore(lam_and_damping)
    while passes < most_passes:
        direction = _direction(objective, u, gradient, slopes, steps)
        predicted = -float(gradient @ direction)
        if not predicted > 0.0:
            direction, steps = -objective.precondition(slopes, u), []
            predicted = -float(gradient @ direction)
        if progress(value / rows.total, predicted):
            break
        if predicted < 2.0 * LEAST_PREDICTED_DECREASE or passes * DESCENTS >= descent * most_passes:
            if descent == DESCENTS:
                break
            value, gradient = objective.update_lam(u, value, slopes)
            objective.damp(u, slopes)
            descent, steps = descent + 1, []
            continue
        first = min(1.0, 2.0 * length)
        step, better, tried = _line_search(objective, u, value, direction, predicted, most_passes - passes, first)
        passes += tried
        if better is None:
            if not steps:
                break
            steps = []  # no decrease along a quasi-Newton direction: the next one is that of block solves alone
            objective.damp(u, slopes)
            continue
        change, length = step * direction, step
        steps = [*steps[1 - QUASI_NEWTON_MEMORY :], (change, better[2] - gradient, _differences(better[1], slopes))]
        u, (value, slopes, gradient) = u + change, better
        if float(steps[-1][0] @ steps[-1][1]) <= 0.0:
            steps.pop()
        if saved is not None:
            state = (u, passes, descent, length, value, slopes, gradient, steps, objective.lam_and_damping)
            saved.put(name, state)
    return posteriors_of(posteriors, additive, objective, u), objective.loss(u)


def posteriors_of(
    posteriors: Sequence[Posterior], additive: AdditiveDesign, objective: RefinementObjective, u: Floats
) -> list[Posterior]:
    """The posteriors with other coefficients and smoothing parameters; variances stay those of the sample."""
    blocks_in_order = iter(zip(objective.blocks(), objective.coefficients(u), strict=True))
    out = []
    for k, posterior in enumerate(posteriors):
        blocks, coef = [], posterior.smooth.coef.copy()
        for j, block in enumerate(posterior.blocks):
            (_, coefficient_block, _), coefs = next(blocks_in_order)
            main, main_lam = _with_coef(block.main, coefficient_block, coefs), coefficient_block.lam
            factors, lam = None, block.lam
            if block.factors is not None:
                (_, coefficient_block, _), coefs = next(blocks_in_order)
                factors, lam = _with_coef(block.factors, coefficient_block, coefs), coefficient_block.lam
            if factors is not None and block.bounds is not None:
                factors = bounded(factors, block.bounds)
            smooth = additive.column(j)
            if smooth is not None:
                _, coefs = next(blocks_in_order)
                coef[smooth[1]] = np.ravel(coefs.flat())
            mean = block.mean.copy()
            known_codes(mean)[:] = np.hstack([main.mean, *([] if factors is None else [factors.mean])])
            blocks.append(replace(block, mean=mean, main=main, factors=factors, main_lam=main_lam, lam=lam))
        # Smooth effects are centred on the rows of the sample.
        shift = float(additive.means @ (coef - posterior.smooth.coef))
        smooth_now = replace(posterior.smooth, coef=coef)
        out.append(replace(posterior, intercept=float(u[k]) + shift, smooth=smooth_now, blocks=tuple(blocks)))
    return out


def _with_coef(
    posterior: FunctionPosterior | None, coefficient_block: CoefficientBlock, coef: Coefficients
) -> FunctionPosterior:
    assert posterior is not None
    return replace(posterior, mean=coefficient_block.values(coef), smooth=coef.smooth, per_code=coef.per_code)


def _line_search(
    objective: RefinementObjective,
    u: Floats,
    value: float,
    direction: Floats,
    predicted: float,
    most: int,
    first: float = 1.0,
) -> tuple[float, tuple[float, list[Floats], Floats] | None, int]:
    """Backtracking with quadratic interpolation, by at most ``most`` passes.

    Returns the length of a step with sufficient decrease, the objective there (None if there is no such step), and the
    number of passes.
    """
    step, passes = first, 0
    while passes < most and step > SHORTEST_STEP:
        with quiet():  # a step that overflows is shortened
            new = objective.value_and_gradient(u + step * direction)
        passes += 1
        if new[0] <= value - SUFFICIENT_SLOPE * step * predicted:
            return step, new, passes
        curved = new[0] - value + step * predicted  # quadratic interpolation
        ratio = 0.5 * step * predicted / curved if np.isfinite(curved) else 0.0
        step *= float(np.clip(ratio, *STEP_RATIOS))
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
            at_codes = [slope - alpha * change for slope, change in zip(at_codes, codes, strict=True)]
        return objective.precondition(at_codes, coefficients)

    return -two_loops(gradient, [(move, change) for move, change, _ in steps], block_solves)


def _differences(new: Sequence[Floats], old: Sequence[Floats]) -> list[Floats]:
    return [a - b for a, b in zip(new, old, strict=True)]


def subsample_of(problem: TrainingProblem) -> TrainingProblem:
    """Some of the rows: at random, or a case-control sample where events are rare."""
    n = problem.response.n_rows
    if n <= SAMPLE_ROWS:
        return problem
    rng = np.random.default_rng([problem.settings.seed, 1])
    sample = problem.take(sample_rows(problem.response, np.arange(n), SAMPLE_ROWS, rng))
    return sample.weighted(sample_weight(sample.response, problem.response))


def refined_fits(
    staged: StagedFit, problem: TrainingProblem, sample: TrainingProblem, runner: Runner, name: str = "member"
) -> list[Fit]:
    """A staged fit's results at every order, refined on all rows; ``name`` is that of its parts in a checkpoint."""
    fits: list[Fit] = []
    saved, loss_below = runner.saved, np.inf
    for at in range(len(staged.posteriors)):
        stage_name = f"{name} stage {at}"
        saved_fit = None if saved is None else saved.get(stage_name, StageResult, Predictor)
        if saved_fit is not None:
            fits.append(saved_fit)
            continue
        new: tuple[list[Posterior], float] | None = None
        if runner.reason is None:
            with runner.interruptible():
                new = _refined_stage(staged, at, problem, sample, runner, stage_name)
        if new is None:
            fits.append(staged.fits[at])
            continue
        posteriors, loss = new
        dispersion = staged.fits[at][0].dispersion
        results = [posterior.stage_result(staged.additive, dispersion) for posterior in posteriors]
        refined_fit = tuple(result for result in results if result is not None)
        if loss > loss_below:  # more factors cannot be worse: the descent has failed, and the order below stays
            fits.append(fits[-1])
        else:
            fits.append(refined_fit if _beats_constants(refined_fit, staged, sample) else staged.fits[at])
        loss_below = min(loss, loss_below)
        if saved is not None and runner.reason is None:
            saved.put(stage_name, fits[-1], instead_of=f"{stage_name} on its way")
    return fits


def _beats_constants(fit: Fit, staged: StagedFit, sample: TrainingProblem) -> bool:
    """Whether a fit has a smaller mean loss than constants on the sample's rows.

    The descent sees curves at the codes, the fit evaluates them at the values, of which a code of a long tail may have
    many.
    """
    response = replace(sample.response, family=staged.response.family)
    eta = predict(fit, sample.books, sample.table, sample.backend)
    losses = [
        response.mean_of(response.derivatives(each).value)
        for each in (eta, np.broadcast_to(response.constants, eta.shape))
    ]
    return bool(losses[0] <= losses[1])


def _refined_stage(
    staged: StagedFit,
    at: int,
    problem: TrainingProblem,
    sample: TrainingProblem,
    runner: Runner,
    stage_name: str,
) -> tuple[list[Posterior], float]:
    """Posteriors at the end of a stage, without factors that the rows do not support, refined on all rows.

    Also the sum of the losses of all rows.
    """
    last = at == len(staged.posteriors) - 1
    sample_rows, dispersion = rows_of(sample, staged), staged.fits[at][0].dispersion
    cost = pass_cost(problem.response.n_rows, staged.ranks, (1, *staged.ranks)[at])
    posteriors = staged.posteriors[at]
    supported = pruned(posteriors, _information(posteriors, staged, sample_rows, problem.data.total / dispersion))
    return refined(
        supported,
        staged.additive,
        all_rows(problem, staged),
        sample_rows,
        staged.expected_sums(supported),
        dispersion,
        most_passes=(problem.settings.max_iter or PASSES) if last else LOWER_ORDER_PASSES,
        progress=partial(runner.report, passes=1.0, cost=cost),
        saved=runner.saved,
        name=f"{stage_name} on its way",
    )


def _information(
    posteriors: Sequence[Posterior], staged: StagedFit, sample_rows: LossRows, total: float
) -> list[float]:
    """Information of all rows about each linear predictor: ``total`` times the mean curvature of the raw sample."""
    tables = tuple(tables_of(posterior, staged.additive) for posterior in posteriors)
    sums = [float(sample_rows.curvature(tables, k, 0).h[:, 0, 0].sum()) for k in range(len(posteriors))]
    return [total * (curvature / sample_rows.total) for curvature in sums]


def all_rows(problem: TrainingProblem, staged: StagedFit) -> LossRows:
    """All rows, in memory or not, and their losses."""
    data = problem.data
    rows = staged.backend.load(selected(data.source, problem.columns), data.executor, pass_precision(data.n_rows))
    return LossRows(rows, staged.response.family, data.total)


def rows_of(sample: TrainingProblem, staged: StagedFit) -> LossRows:
    """Rows of the sample, and their losses."""
    response = sample.response
    source = array_source(sample.codes, response.y, response.weight, response.offset)
    executor = ThreadExecutor(sample.settings.n_threads)
    rows = staged.backend.load(source, executor, pass_precision(response.n_rows))
    return LossRows(rows, staged.response.family, response.total)


def pruned(posteriors: Sequence[Posterior], information: Sequence[float]) -> list[Posterior]:
    """Posteriors without the factors that none of them supports; of every order the largest one stays.

    ``information`` is, of every linear predictor, the sum of its rows' curvatures over the dispersion.
    """
    ranks = posteriors[0].ranks
    if not ranks:
        return list(posteriors)
    # Ratios of the variance of each factor's term to that by noise alone: (linear predictors, factors).
    pairs = zip(posteriors, information, strict=True)
    ratios = np.array([total * _term_variances(posterior) / _edf(posterior) for posterior, total in pairs])
    most = ratios.max(axis=0)
    kept = {}
    for order, factors in Orders(ranks).factor_slices.items():
        supported = (most[factors] > LEAST_SIGNAL_TO_NOISE) | (most[factors] == most[factors].max())
        kept[order] = factors.start + np.flatnonzero(supported)
    return [_with_factors(posterior, kept) for posterior in posteriors]


def _term_variances(posterior: Posterior) -> Floats:
    """Variance of each factor's term, with columns taken as independent: (factors,)."""
    orders = Orders(posterior.ranks)
    squares = np.array([block.column.mass @ known_codes(block.mean) ** 2 for block in posterior.blocks])
    by_order = orders.split(squares)[1]
    return orders.joined_factors({order: symmetric(by_order[order], order) for order in by_order})


def _edf(posterior: Posterior) -> Floats:
    """Effective degrees of freedom of each factor, at least 1: (factors,)."""
    edf = [block.factors.edf.sum(axis=0) for block in posterior.blocks if block.factors is not None]
    return np.asarray(np.maximum(np.sum(edf, axis=0), 1.0))


def _with_factors(posterior: Posterior, kept: dict[int, NDArray[np.intp]]) -> Posterior:
    which = np.concatenate(list(kept.values()))
    ranks = {order: len(factors) for order, factors in kept.items()}
    return replace(posterior, ranks=ranks, blocks=tuple(block.only(which) for block in posterior.blocks))

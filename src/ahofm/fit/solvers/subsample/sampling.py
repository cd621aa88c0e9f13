"""Subsample: a variational fit to a sample of the rows, then quasi-Newton passes over all rows."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from ahofm.fit.cost.runner import Runner
from ahofm.fit.cost.schedule import pass_cost
from ahofm.fit.settings import Settings
from ahofm.fit.solvers.subsample.objective import Rows, tables_of
from ahofm.fit.solvers.subsample.prune import pruned
from ahofm.fit.solvers.subsample.refine import refined
from ahofm.fit.solvers.variational.posterior import Posterior
from ahofm.fit.solvers.variational.staged_fit import StagedFit
from ahofm.fit.solvers.variational.stages import Fit, StageResult
from ahofm.fit.stacking.problem import TrainingProblem
from ahofm.fit.tuning import FLOAT64_PASS_ROWS, PASSES, PASSES_BELOW, SAMPLE_ROWS, SUBSAMPLE_ROWS
from ahofm.kernels import NativeKernel
from ahofm.rows import ArraySource, ThreadExecutor, selected


def uses_subsample(settings: Settings, n_rows: int) -> bool:
    """Whether fits are made to a sample first."""
    return settings.solver == "subsample" or (settings.solver == "auto" and n_rows > SUBSAMPLE_ROWS)


def subsample_of(problem: TrainingProblem) -> TrainingProblem:
    """Some of the rows, at random."""
    n = problem.response.n_rows
    if n <= SAMPLE_ROWS:
        return problem
    rows = np.random.default_rng([problem.settings.seed, 1]).permutation(n)[:SAMPLE_ROWS]
    return problem.take(np.sort(rows))


def refined_fits(
    staged: StagedFit, problem: TrainingProblem, sample: TrainingProblem, runner: Runner, name: str = "member"
) -> list[Fit]:
    """A staged fit's results at every order, refined on all rows; ``name`` is that of its parts in a checkpoint."""
    fits: list[Fit] = []
    saved = runner.saved
    for at in range(len(staged.posteriors)):
        place = f"{name} stage {at}"
        kept = None if saved is None else saved.get(place, StageResult)
        if kept is not None:
            fits.append(kept)
            continue
        new: list[Posterior] | None = None
        if runner.reason is None:
            with runner.interruptible():
                new = _refined_stage(staged, at, problem, sample, runner, place)
        if new is None:
            fits.append(staged.fits[at])
            continue
        noise = staged.fits[at][0].noise
        parts = [posterior.stage_result(staged.additive, noise) for posterior in new]
        fits.append(tuple(part for part in parts if part is not None))
        if saved is not None and runner.reason is None:
            saved.put(place, fits[-1], instead_of=f"{place} on its way")
    return fits


def _refined_stage(
    staged: StagedFit, at: int, problem: TrainingProblem, sample: TrainingProblem, runner: Runner, place: str
) -> list[Posterior]:
    """Posteriors at the end of a stage, without factors that the rows do not support, refined on all rows."""
    last = at == len(staged.posteriors) - 1
    known, noise = rows_of(sample, staged), staged.fits[at][0].noise
    cost = pass_cost(problem.response.n_rows, staged.ranks, (1, *staged.ranks)[at])
    posteriors = staged.posteriors[at]
    supported = pruned(posteriors, _information(posteriors, staged, known, problem.data.total / noise))
    return refined(
        supported,
        staged.additive,
        all_rows(problem, staged),
        known,
        staged.expected_sums(supported),
        noise,
        most_passes=(problem.settings.max_iter or PASSES) if last else PASSES_BELOW,
        progress=partial(runner.report, passes=1.0, cost=cost),
        saved=runner.saved,
        name=f"{place} on its way",
    )


def _information(posteriors: Sequence[Posterior], staged: StagedFit, known: Rows, total: float) -> list[float]:
    """Information of all rows about each linear predictor: ``total`` times the mean curvature of the raw sample."""
    tables = tuple(tables_of(posterior, staged.additive) for posterior in posteriors)
    mean = [float(known.curvature(tables, k, 0).h[:, 0, 0].sum()) / known.total for k in range(len(posteriors))]
    return [total * own for own in mean]


def all_rows(problem: TrainingProblem, staged: StagedFit) -> Rows:
    """For passes over all rows, wherever they are."""
    data = problem.data
    source = selected(data.source, problem.columns)
    return Rows(source, data.executor, _kernel(data.n_rows), staged.response.family, data.total)


def rows_of(sample: TrainingProblem, staged: StagedFit) -> Rows:
    """For passes over the rows of the sample."""
    response = sample.response
    weight = None if (response.weight == 1.0).all() else response.weight
    source = ArraySource(sample.codes, response.y, weight, response.offset)
    executor = ThreadExecutor(sample.settings.n_threads)
    return Rows(source, executor, _kernel(response.n_rows), staged.response.family, response.total)


def _kernel(n_rows: int) -> NativeKernel:
    return NativeKernel("float64" if n_rows <= FLOAT64_PASS_ROWS else "float32")

"""Cross-validation of candidate fits: each is fitted to a part of the rows and predicts the validation rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ahofm.columns.basis import Floats
from ahofm.fit.cost.plan import search_settings
from ahofm.fit.cost.runner import Runner
from ahofm.fit.solvers.variational.staged_fit import StagedFit
from ahofm.fit.solvers.variational.stages import Fit
from ahofm.fit.stacking.candidates import Candidate
from ahofm.fit.stacking.problem import TrainingProblem
from ahofm.fit.stacking.variance_model import weighted
from ahofm.fit.stacking.weights import Scores, Split, can_judge, predict, stratified, validation_split
from ahofm.model import Reason


def search(
    problem: TrainingProblem, candidates: Sequence[Candidate], runner: Runner
) -> tuple[Scores | None, list[list[Fit]], TrainingProblem]:
    """Errors on validation rows, fits to the rest by plain candidates, and the rows as they count in weighted ones.

    There are no errors when somebody asked to stop, or when all targets but one are equal: the rows without that one
    have nothing to fit. There are none of weighted candidates where rows are equally precise.
    """
    first: list[list[Fit]] = []
    try:
        return _search(problem, candidates, runner, first)
    except KeyboardInterrupt:  # not within sweeps, where the runner sees to it: the fits so far are kept
        runner.reason = Reason.INTERRUPTED
        return None, first, problem


def _search(
    problem: TrainingProblem, candidates: Sequence[Candidate], runner: Runner, first: list[list[Fit]]
) -> tuple[Scores | None, list[list[Fit]], TrainingProblem]:
    """The same; ``first`` gets the fits by plain candidates as soon as they are there."""
    n, dispersed, y = problem.response.n_rows, problem.response.family.dispersed, problem.response.y
    parts = validation_split(n, problem.settings.seed, dispersed=dispersed, rare=problem.response.rare)
    if not can_judge(parts, y):
        parts = stratified(y, problem.settings.seed, dispersed=dispersed, rare=problem.response.rare)
    if not can_judge(parts, y):
        return None, [], problem
    shorter = search_settings(problem.settings, n, dispersed=dispersed)
    plain = [candidate for candidate in candidates if not candidate.weighted]
    staged_fits = _staged_fits(replace(problem, settings=shorter), plain, parts, 0)
    found = runner(staged_fits, "search")
    first += found[: len(plain)]
    if runner.reason is not None:
        return None, first, problem
    rows = np.concatenate([rest for _, rest in parts])
    response = replace(problem.response.take(rows), family=staged_fits[0].response.family)
    scores = Scores((1, *problem.ranks), _predicted(problem, parts, found), response)
    if len(plain) == len(candidates):
        return scores, first, problem
    precise = weighted(problem, rows, scores, runner)
    staged_fits = _staged_fits(
        replace(precise or problem, settings=shorter), candidates[len(plain) :], parts, len(plain)
    )
    if precise is None:
        runner.expect(-sum(staged.job.total for staged in staged_fits))
        return scores if runner.reason is None else None, first, problem
    found = runner(staged_fits, "search again")
    if runner.reason is not None:
        return None, first, problem
    predicted = np.concatenate([scores.predicted, _predicted(problem, parts, found)], axis=2)
    return replace(scores, predicted=predicted), first, precise


def _staged_fits(
    problem: TrainingProblem, candidates: Sequence[Candidate], parts: Sequence[Split], first: int
) -> list[StagedFit]:
    """By each candidate to each part of the rows; the first of the candidates has that number."""
    some = [problem.take(rows) for rows, _ in parts]
    return [own.staged_fit(candidate, first + k, 0) for own in some for k, candidate in enumerate(candidates)]


def _predicted(problem: TrainingProblem, parts: Sequence[Split], found: Sequence[list[Fit]]) -> Floats:
    """For the validation rows: (rows, linear predictors, candidates, orders)."""
    predicted, count = [], len(found) // len(parts)
    for fold, (_, rest) in enumerate(parts):
        columns = [column[rest] for column in problem.table]
        own = found[fold * count : (fold + 1) * count]
        by_candidate = [[predict(part, problem.books, columns) for part in staged] for staged in own]
        predicted.append(np.array(by_candidate).transpose(2, 3, 0, 1))
    return np.concatenate(predicted)

"""Recipes are tried on a part of the rows, and judged by the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ahofm.columns.basis import Floats
from ahofm.fit.cost.plan import search_settings
from ahofm.fit.cost.runner import Runner
from ahofm.fit.cost.schedule import Fit
from ahofm.fit.solvers.variational.staged_fit import Member
from ahofm.fit.stacking.problem import Recipe, Work
from ahofm.fit.stacking.variance_model import weighted
from ahofm.fit.stacking.weights import Part, Scores, can_judge, predict, set_aside, stratified
from ahofm.model import Reason


def search(work: Work, recipes: Sequence[Recipe], runner: Runner) -> tuple[Scores | None, list[list[Fit]], Work]:
    """Errors on rows set aside, fits to the rest by plain recipes, and the rows as they count in weighted ones.

    There are no errors when somebody asked to stop, or when all targets but one are equal: the rows without that one
    have nothing to fit. There are none of weighted recipes where rows are equally precise.
    """
    first: list[list[Fit]] = []
    try:
        return _search(work, recipes, runner, first)
    except KeyboardInterrupt:  # not within sweeps, where the runner sees to it: the fits so far are kept
        runner.reason = Reason.INTERRUPTED
        return None, first, work


def _search(
    work: Work, recipes: Sequence[Recipe], runner: Runner, first: list[list[Fit]]
) -> tuple[Scores | None, list[list[Fit]], Work]:
    """The same; ``first`` gets the fits by plain recipes as soon as they are there."""
    n, dispersed, y = work.response.n_rows, work.response.family.dispersed, work.response.y
    parts = set_aside(n, work.settings.seed, dispersed=dispersed, rare=work.response.rare)
    if not can_judge(parts, y):
        parts = stratified(y, work.settings.seed, dispersed=dispersed, rare=work.response.rare)
    if not can_judge(parts, y):
        return None, [], work
    shorter = search_settings(work.settings, n, dispersed=dispersed)
    plain = [recipe for recipe in recipes if not recipe.weighted]
    members = _members(replace(work, settings=shorter), plain, parts, 0)
    found = runner(members, "search")
    first += found[: len(plain)]
    if runner.reason is not None:
        return None, first, work
    rows = np.concatenate([rest for _, rest in parts])
    response = replace(work.response.take(rows), family=members[0].response.family)
    scores = Scores((1, *work.ranks), _predicted(work, parts, found), response)
    if len(plain) == len(recipes):
        return scores, first, work
    precise = weighted(work, rows, scores, runner)
    members = _members(replace(precise or work, settings=shorter), recipes[len(plain) :], parts, len(plain))
    if precise is None:
        runner.expect(-sum(member.job.total for member in members))
        return scores if runner.reason is None else None, first, work
    found = runner(members, "search again")
    if runner.reason is not None:
        return None, first, work
    predicted = np.concatenate([scores.predicted, _predicted(work, parts, found)], axis=2)
    return replace(scores, predicted=predicted), first, precise


def _members(work: Work, recipes: Sequence[Recipe], parts: Sequence[Part], first: int) -> list[Member]:
    """By each recipe to each part of the rows; the first of the recipes has that number."""
    some = [work.take(rows) for rows, _ in parts]
    return [own.member(recipe, first + k, 0) for own in some for k, recipe in enumerate(recipes)]


def _predicted(work: Work, parts: Sequence[Part], found: Sequence[list[Fit]]) -> Floats:
    """For the rows that were set aside: (rows, predictors, recipes, orders)."""
    predicted, count = [], len(found) // len(parts)
    for fold, (_, rest) in enumerate(parts):
        columns = [column[rest] for column in work.table]
        own = found[fold * count : (fold + 1) * count]
        by_recipe = [[predict(part, work.books, columns) for part in member] for member in own]
        predicted.append(np.array(by_recipe).transpose(2, 3, 0, 1))
    return np.concatenate(predicted)

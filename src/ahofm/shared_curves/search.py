"""Cross-validation of candidate fits to several classes, and stacking weights by the losses on validation rows.

All candidates are fitted without the first part of the rows. Those that predict it much worse than the best are out of
the race; the others are fitted without each of the other parts, too. Curves with fixed smoothing parameters are judged
after several numbers of sweeps (early stopping), against overfitting.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ahofm.columns.basis import Floats
from ahofm.orders import PRODUCT
from ahofm.shared_curves.candidates import ClassCandidate
from ahofm.shared_curves.class_fit import predicted
from ahofm.shared_curves.class_rows import ClassRows
from ahofm.shared_curves.main_effects import JointDesign
from ahofm.shared_curves.problem import ClassProblem, ClassState
from ahofm.shared_curves.shared_fit import CurveSettings, fit_factors, main_effects_job
from ahofm.shared_curves.stack import class_stacking_weights
from ahofm.training.parts import Part, parts_of_classes, validated_weight
from ahofm.training.runner import Job, Report, Runner
from ahofm.training.validation import mean_and_error
from ahofm.tuning import LEAST_WEIGHT
from ahofm.tuning.classes import (
    CLASS_INVERSE_TEMPERATURES,
    LEAST_CLASS_LOSS,
    MOST_CLASS_INVERSE_TEMPERATURE,
    PATIENCE,
    PRODUCT_LOSS_RATIO,
    RACE_LOSS_RATIO,
    SCALE_LOSS_RATIO,
    SEARCH_STARTS,
    SWEEPS_JUDGED,
)


@dataclass(frozen=True)
class Judged:
    """A candidate after a number of sweeps, with its linear predictors (K, rows) of the validation rows."""

    candidate: ClassCandidate
    eta: Floats
    loss: float


@dataclass
class Search:
    """Results of cross-validation.

    Attributes
    ----------
    rows : ClassRows
        The validation rows.
    judged : list of Judged
        Candidates that are still in the race, each with the number of sweeps that predicts best.
    losses : dict of name to number
        Mean losses of all candidates on the rows that they have been judged by.
    groups : array of shape (rows,), optional
        Validation rows that go together, in standard errors.
    """

    rows: ClassRows
    judged: list[Judged] = field(default_factory=list)
    losses: dict[str, float] = field(default_factory=dict)
    groups: NDArray[np.intp] | None = None

    def weights(self, order: int) -> list[tuple[float, ClassCandidate]]:
        """Stacking weights of candidates up to an order; what they lack to 1 is the weight of constants.

        Their sum may exceed 1, up to ``MOST_CLASS_INVERSE_TEMPERATURE``, where that predicts validation rows better.
        """
        judged = [one for one in self.judged if one.candidate.order <= order]
        if not judged:
            return []
        weights = class_stacking_weights([one.eta for one in judged], self.rows)
        weights = np.where(weights < LEAST_WEIGHT, 0.0, weights)
        if not weights.any():
            best = min(judged, key=lambda one: one.loss)
            return [(LEAST_WEIGHT, best.candidate)]
        found = [(float(weight), one.candidate) for weight, one in zip(weights, judged, strict=True) if weight > 0.0]
        return self._scaled(found)

    def _scaled(self, weights: list[tuple[float, ClassCandidate]]) -> list[tuple[float, ClassCandidate]]:
        """Weights times the factor from 1 on that predicts validation rows best (temperature scaling).

        Starts of a candidate and candidates differ where columns tell little, so their mean is closer to constants than
        classes that hardly overlap need.
        """
        scaled = [
            [(float(factor) * weight, candidate) for weight, candidate in weights]
            for factor in np.linspace(1.0, MOST_CLASS_INVERSE_TEMPERATURE, CLASS_INVERSE_TEMPERATURES)
        ]
        losses = [float(self.rows.weight @ self.row_losses(one)) for one in scaled]
        return scaled[int(np.argmin(losses))]

    def predicted(self, weights: Sequence[tuple[float, ClassCandidate]]) -> tuple[Floats, Floats]:
        """Losses (rows,) and probabilities (K, rows) of a weighted mean."""
        by_name = {judged.candidate.name: judged.eta for judged in self.judged}
        constant = (1.0 - sum(weight for weight, _ in weights)) * self.rows.constants()[:, np.newaxis]
        eta = constant + sum((weight * by_name[candidate.name] for weight, candidate in weights), np.zeros((1, 1)))
        observed, p = self.rows.log_likelihoods(np.broadcast_to(eta, (self.rows.n_classes, self.rows.n_rows)))
        return -observed, p

    def row_losses(self, weights: Sequence[tuple[float, ClassCandidate]]) -> Floats:
        """Losses (rows,) of a weighted mean."""
        return self.predicted(weights)[0]


def search(
    problems: Mapping[bool, ClassProblem],
    candidates: Sequence[ClassCandidate],
    seed: int,
    runner: Runner,
    parts: Sequence[Part] | None = None,
    groups: NDArray[np.intp] | None = None,
) -> Search | None:
    """Cross-validate the candidates; None if the fit is to stop.

    Parameters
    ----------
    problems : dict of bool to ClassProblem
        All rows, by whether curves are smooth in ranks.
    candidates : sequence of ClassCandidate
    seed : int
    runner : Runner
    parts : sequence of Part, optional
        Rows to fit and validation rows; at random by default.
    groups : array of shape (n,), optional
        Rows that go together.
    """
    rows = next(iter(problems.values())).rows
    parts = parts_of_classes(rows.y, rows.weight, seed) if parts is None else parts
    validation_rows = np.concatenate([part.validation for part in parts])
    validated = replace(rows.take(validation_rows), weight=validated_weight(parts, rows.weight))
    found = Search(validated, groups=None if groups is None else groups[validation_rows])
    race = _race(problems, candidates, parts[0], seed, runner, groups)
    if race is None:
        return None
    paths = {name: [path] for name, path in race.paths.items()}
    found.losses, racing = race.means(), race.remaining()
    scales = sorted({one.in_ranks for one in racing})
    folds = fit_folds(problems, scales, parts[1:], [(seed, number) for number in range(1, len(parts))], runner)
    others = None if folds is None else paths_of(folds, racing, runner)
    if others is None:
        return None
    for fold_paths in others:
        for candidate, path in zip(racing, fold_paths, strict=True):
            paths[candidate.name].append(path)
    for candidate in racing:
        found.judged.append(_best_stop(candidate, paths[candidate.name], found.rows))
        found.losses[candidate.name] = found.judged[-1].loss
    return found


@dataclass
class Race:
    """Candidates that have been fitted without the first validation rows.

    Attributes
    ----------
    weight : array of shape (rows,)
        Of the first validation rows.
    groups : array of shape (rows,) or None
        Those of them that go together.
    candidates : list of ClassCandidate
    paths : dict of name to linear predictors (K, rows) by number of sweeps
    losses : dict of name to array of shape (rows,)
        At the number of sweeps that predicts best.
    """

    weight: Floats
    groups: NDArray[np.intp] | None = None
    candidates: list[ClassCandidate] = field(default_factory=list)
    paths: dict[str, dict[int, Floats]] = field(default_factory=dict)
    losses: dict[str, Floats] = field(default_factory=dict)

    def add(self, candidate: ClassCandidate, path: dict[int, Floats], rows: ClassRows) -> None:
        """Add a candidate with its predictions after each number of sweeps."""
        losses = [-rows.log_likelihoods(eta)[0] for eta in path.values()]
        self.candidates.append(candidate)
        self.paths[candidate.name] = path
        self.losses[candidate.name] = min(losses, key=self._mean)

    def means(self) -> dict[str, float]:
        """Mean losses by name."""
        return {name: self._mean(losses) for name, losses in self.losses.items()}

    def _mean(self, values: Floats) -> float:
        return float(self.weight @ values / self.weight.sum())

    def near(self, candidate: ClassCandidate, times: float) -> bool:
        """Whether a candidate's loss is at most ``times`` the least one, or within a standard error of it."""
        if candidate.name not in self.losses:
            return False
        least = min(self.losses.values(), key=self._mean)
        mean, error = mean_and_error(self.losses[candidate.name] - least, self.weight, self.groups)
        return bool(mean <= max((times - 1.0) * max(self._mean(least), LEAST_CLASS_LOSS), error))

    def remaining(self) -> list[ClassCandidate]:
        """Candidates still in the race; main effects always are."""
        mains = [one for one in self.candidates if one.curve_settings is None]
        others = [one for one in self.candidates if one.curve_settings is not None and self.near(one, RACE_LOSS_RATIO)]
        means = self.means()
        most = PRODUCT_LOSS_RATIO * min((means[one.name] for one in mains), default=np.inf)
        return mains + [one for one in others if one.order != PRODUCT or means[one.name] <= most]

    def admits(self, candidate: ClassCandidate) -> bool:
        """Whether a candidate of a later stage is fitted: if its scale and its parent are still in the race."""
        same = [one for one in self.candidates if one.in_ranks == candidate.in_ranks]
        if not any(self.near(one, SCALE_LOSS_RATIO) for one in same):
            return False
        parents = [one for one in same if one.curve_settings == candidate.parent]
        return candidate.parent is None or any(self.near(one, RACE_LOSS_RATIO) for one in parents)


def _race(
    problems: Mapping[bool, ClassProblem],
    candidates: Sequence[ClassCandidate],
    part: Part,
    seed: int,
    runner: Runner,
    groups: NDArray[np.intp] | None,
) -> Race | None:
    """Fit candidates without the first validation rows, stage by stage; None if the fit is to stop."""
    weight = validated_weight([part], next(iter(problems.values())).rows.weight)
    race = Race(weight, None if groups is None else groups[part.validation])
    folds = fit_folds(problems, sorted(problems), [part], [(seed, 0)], runner)
    for stage in sorted({candidate.stage for candidate in candidates}):
        admitted = [one for one in candidates if one.stage == stage and (stage == 0 or race.admits(one))]
        paths = None if folds is None else paths_of(folds, admitted, runner)
        if folds is None or paths is None:
            return None
        for candidate, path in zip(admitted, paths[0], strict=True):
            race.add(candidate, path, folds[0].validation[candidate.in_ranks].rows)
    return race


def _best_stop(candidate: ClassCandidate, paths: Sequence[dict[int, Floats]], rows: ClassRows) -> Judged:
    """A candidate after the number of sweeps that predicts best, of those that all parts have."""
    found: tuple[float, int, Floats] | None = None
    for sweeps in set.intersection(*(set(path) for path in paths)):
        eta = np.concatenate([path[sweeps] for path in paths], axis=1)
        loss = rows.loss(eta) / rows.total
        if found is None or loss < found[0]:
            found = loss, sweeps, eta
    assert found is not None
    loss, sweeps, eta = found
    if candidate.curve_settings is not None and not candidate.curve_settings.learned:
        candidate = candidate.up_to(sweeps)
    return Judged(candidate, eta, loss)


@dataclass(frozen=True)
class Fold:
    """Rows to fit and validation rows, with the main effects that all candidates begin with, by scale."""

    problems: Mapping[bool, ClassProblem]
    designs: Mapping[bool, JointDesign]
    states: Mapping[bool, ClassState]
    validation: Mapping[bool, ClassProblem]
    seed: tuple[int, int]
    fraction: float

    def jobs(self, candidates: Sequence[ClassCandidate]) -> list[Job]:
        """Fits of the candidates, some of them from several starts."""
        found: list[Job] = []
        for candidate in candidates:
            k = candidate.in_ranks
            for start in range(_starts(candidate.curve_settings)):
                seed = (*self.seed, start)
                found.append(
                    _path(self.problems[k], self.designs[k], self.states[k], candidate, seed, self.validation[k])
                )
        return found

    def paths(self, candidates: Sequence[ClassCandidate], found: Sequence[Any]) -> list[dict[int, Floats]]:
        """Linear predictors of the validation rows by number of sweeps, from the results of the jobs."""
        paths, at = [], 0
        for candidate in candidates:
            k, count = candidate.in_ranks, _starts(candidate.curve_settings)
            if candidate.curve_settings is None:
                paths.append(
                    {0: predicted(self.problems[k], self.designs[k], self.states[k], self.validation[k].coded)}
                )
                continue
            starts = found[at : at + count]
            at += count
            paths.append({s: np.mean([one[s] for one in starts], axis=0) for s in set.intersection(*map(set, starts))})
        return paths


def fit_folds(
    problems: Mapping[bool, ClassProblem],
    scales: Sequence[bool],
    parts: Sequence[Part],
    seeds: Sequence[tuple[int, int]],
    runner: Runner,
) -> list[Fold] | None:
    """Fit main effects to the rows of each part, side by side; None if the fit is to stop."""
    fold_problems = [
        {in_ranks: problems[in_ranks].take(part.fitted, part.fitted_fraction) for in_ranks in scales} for part in parts
    ]
    designs = [
        {in_ranks: JointDesign.of(fold[in_ranks].columns, fold[in_ranks].coded) for in_ranks in scales}
        for fold in fold_problems
    ]
    fractions = [part.n_fitted / problems[scales[0]].rows.n_rows for part in parts]
    pairs = zip(fold_problems, designs, strict=True)
    jobs = [main_effects_job(fold_problem[k], by_scale[k]) for fold_problem, by_scale in pairs for k in scales]
    mains = runner.run_jobs(jobs, float(np.mean(fractions)) if fractions else 0.0)
    if runner.stopped():
        return None
    found = []
    for at, part in enumerate(parts):
        states = dict(zip(scales, mains[at * len(scales) : (at + 1) * len(scales)], strict=True))
        validation = {
            in_ranks: problems[in_ranks].take(part.validation, part.validation_fraction) for in_ranks in scales
        }
        found.append(Fold(fold_problems[at], designs[at], states, validation, seeds[at], fractions[at]))
    return found


def paths_of(
    folds: Sequence[Fold], candidates: Sequence[ClassCandidate], runner: Runner
) -> list[list[dict[int, Floats]]] | None:
    """Linear predictors of the validation rows of each fold, by candidate and number of sweeps; None to stop."""
    stage = max((candidate.stage for candidate in candidates), default=0)
    jobs = [fold.jobs(candidates) for fold in folds]
    places = [
        f"search {fold.seed[1]} {stage} {k}"
        for fold, fold_jobs in zip(folds, jobs, strict=True)
        for k in range(len(fold_jobs))
    ]
    fraction = float(np.mean([fold.fraction for fold in folds])) if folds else 0.0
    found = runner.run_jobs([job for fold_jobs in jobs for job in fold_jobs], fraction, places)
    if runner.stopped():
        return None
    paths, at = [], 0
    for fold, fold_jobs in zip(folds, jobs, strict=True):
        paths.append(fold.paths(candidates, found[at : at + len(fold_jobs)]))
        at += len(fold_jobs)
    return paths


def _starts(curve_settings: CurveSettings | None) -> int:
    """Random starts of a candidate in cross-validation."""
    return 0 if curve_settings is None else 1 if curve_settings.learned else SEARCH_STARTS


def _path(
    problem: ClassProblem,
    design: JointDesign,
    start: ClassState,
    candidate: ClassCandidate,
    seed: Sequence[int],
    validation: ClassProblem,
) -> Job:
    """A fit, and its linear predictors of the validation rows after several numbers of sweeps; -1 is the last."""
    curve_settings = candidate.curve_settings
    assert curve_settings is not None

    def job(report: Report) -> dict[int, Floats]:
        path: dict[int, Floats] = {}
        losses: dict[int, float] = {}

        def watch(sweeps: int, state: ClassState) -> bool:
            if sweeps in SWEEPS_JUDGED or sweeps == curve_settings.sweeps:
                path[sweeps] = predicted(problem, design, state, validation.coded)
                losses[sweeps] = validation.rows.loss(path[sweeps])
            best = min(losses, key=lambda at: losses[at], default=sweeps)
            return sweeps >= PATIENCE * best + 1

        if curve_settings.learned:
            state = fit_factors(problem, design, start, curve_settings, seed, report)
            return {-1: predicted(problem, design, state, validation.coded)}
        fit_factors(problem, design, start, curve_settings, seed, report, watch)
        return path

    return job

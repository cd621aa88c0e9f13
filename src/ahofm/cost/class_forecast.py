"""What a fit to several classes will cost: a sweep of each candidate, timed on some of the rows."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from ahofm.shared_curves.candidates import class_candidates
from ahofm.shared_curves.ensemble import ClassProblems
from ahofm.shared_curves.main_effects import JointDesign
from ahofm.shared_curves.shared_fit import fit_factors, fit_mains
from ahofm.training.data import Data
from ahofm.training.settings import Settings
from ahofm.tuning.classes import (
    CLASS_FOLDED_ROWS,
    CLASS_FOLDS,
    CLASS_SEARCH_ROWS,
    FIXED_STARTS,
    LEARNED_STARTS,
    LIKELY_CLASS_SWEEPS,
    SEARCH_STARTS,
)
from ahofm.tuning.forecasts import BUSY_CLASS_NUMBERS, PROBED_SMALL


@dataclass(frozen=True)
class ClassCosts:
    """Seconds of the search and of the members on one thread, bytes of a fit, and how many members are likely."""

    search: float
    members: float
    memory: float
    n_members: int


def class_costs(data: Data, ranks: Mapping[int, int], settings: Settings, n_rows: int) -> ClassCosts:
    """Costs of a fit to ``n_rows`` rows like those of ``data``.

    Parameters
    ----------
    data : Data
        Some of the rows.
    ranks : dict of order to rank
    settings : Settings
    n_rows : int
    """
    problems = ClassProblems.of(data, settings)
    whole = problems.by_scale[False]
    some = whole.take(np.arange(min(whole.rows.n_rows, PROBED_SMALL)))
    design = JointDesign.of(some.columns, some.coded)
    begun = time.process_time()
    start = fit_mains(some, design, lambda _: False)
    mains = time.process_time() - begun
    folds = CLASS_FOLDS if n_rows <= CLASS_FOLDED_ROWS else 1
    part = n_rows * (folds - 1) / folds if folds > 1 else min(CLASS_SEARCH_ROWS, 0.8 * n_rows)
    searched, fitted = part / some.rows.n_rows, n_rows / some.rows.n_rows
    scales = len(problems.by_scale)
    search, members, count, width = scales * folds * mains * searched, scales * mains * fitted, 1, 0
    candidates = class_candidates(
        ranks, settings, whole.groups, scales=[False], n_rows=n_rows, n_columns=len(whole.columns)
    )
    for candidate in candidates:
        curve_settings = candidate.curve_settings
        if curve_settings is None:
            continue
        begun = time.process_time()
        fit_factors(some, design, start, replace(curve_settings, sweeps=2), 0, lambda _: False)
        sweep = 0.5 * (time.process_time() - begun) * (2.0 if curve_settings.learned else 1.0)
        sweeps = LIKELY_CLASS_SWEEPS * curve_settings.sweeps
        tried = (scales if candidate.stage == 0 else 1) + (folds - 1) * 0.5  # half of them are out of the race
        search += (1 if curve_settings.learned else SEARCH_STARTS) * tried * sweeps * sweep * searched
        copies = LEARNED_STARTS if curve_settings.learned else FIXED_STARTS
        likely = 1.0 / max(len(candidates) - 1, 1) if candidate.stage else 0.5
        members += likely * copies * sweeps * sweep * fitted
        count, width = max(count, copies), max(width, sum(curve_settings.ranks.values()))
    per_factor, per_class = BUSY_CLASS_NUMBERS
    numbers = design.matrix.shape[1] + per_factor * width + per_class * whole.rows.n_classes
    if settings.n_members != "auto":
        count = int(settings.n_members)
    return ClassCosts(search if len(candidates) > 1 else 0.0, members, 8.0 * numbers * n_rows, count)

"""More rows than it takes to learn strengths: members are fitted to a sample of them, then refined on all."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from ahofm.fit.cost.runner import Runner
from ahofm.fit.cost.schedule import Fit, Snapshot, pass_work
from ahofm.fit.settings import Settings
from ahofm.fit.solvers.subsample.objective import Rows, tables_of
from ahofm.fit.solvers.subsample.prune import needed
from ahofm.fit.solvers.subsample.refine import refined
from ahofm.fit.solvers.variational.posterior import Belief
from ahofm.fit.solvers.variational.staged_fit import Member
from ahofm.fit.stacking.problem import Work
from ahofm.kernels import NativeKernel
from ahofm.model import Reason
from ahofm.rows import KNOWN_ROWS, ArraySource, ThreadExecutor, selected

SAMPLE_ROWS = 50_000
"""So many rows settle strengths and dispersion, and where factors start."""

NEWTON_ROWS = KNOWN_ROWS
"""Beyond, this is the default: at order 3 and rank 12 both take as long there, and a block fit is a little better."""

_FLOAT64_ROWS = 200_000

PASSES, PASSES_BELOW = 44, 12
"""Over all rows, at most: at the highest order, and at each of those below."""


def goes_on_a_sample(settings: Settings, n_rows: int) -> bool:
    """Whether members are fitted to a sample first."""
    return settings.solver == "newton" or (settings.solver == "auto" and n_rows > NEWTON_ROWS)


def sample_of(work: Work) -> Work:
    """Some of the rows, at random."""
    n = work.response.n_rows
    if n <= SAMPLE_ROWS:
        return work
    rows = np.random.default_rng([work.settings.seed, 1]).permutation(n)[:SAMPLE_ROWS]
    return work.take(np.sort(rows))


def refined_fits(member: Member, work: Work, sample: Work, runner: Runner, name: str = "member") -> list[Fit]:
    """The member's fits at every order, refined on all rows. The name is that of what is kept on the way."""
    fits: list[Fit] = []
    saved = runner.saved
    for at, beliefs in enumerate(member.beliefs):
        place = f"{name} stage {at}"
        kept = None if saved is None else saved.get(place, Snapshot)
        if kept is not None:
            fits.append(kept)
            continue
        if runner.reason is not None:
            fits.append(member.fits[at])
            continue
        last = at == len(member.beliefs) - 1
        known, noise = rows_of(sample, member), member.fits[at][0].noise
        cost = pass_work(work.response.n_rows, member.ranks, (1, *member.ranks)[at])
        try:
            supported = needed(beliefs, _information(beliefs, member, known, work.data.total / noise))
            new = refined(
                supported,
                member.additive,
                all_rows(work, member),
                known,
                member.believed(supported),
                noise,
                most_passes=(work.settings.max_iter or PASSES) if last else PASSES_BELOW,
                progress=partial(runner.report, passes=1.0, work=cost),
                saved=saved,
                name=f"{place} on its way",
            )
        except KeyboardInterrupt:
            runner.reason = Reason.INTERRUPTED
            fits.append(member.fits[at])
            continue
        parts = [belief.snapshot(member.additive, noise) for belief in new]
        fits.append(tuple(part for part in parts if part is not None))
        if saved is not None and runner.reason is None:
            saved.put(place, fits[-1], instead_of=f"{place} on its way")
    return fits


def _information(beliefs: Sequence[Belief], member: Member, known: Rows, total: float) -> list[float]:
    """Of all rows about each predictor: ``total`` weight over dispersion, times the mean curvature of known rows."""
    tables = tuple(tables_of(belief, member.additive) for belief in beliefs)
    mean = [float(known.curvature(tables, k, 0).h[:, 0, 0].sum()) / known.total for k in range(len(beliefs))]
    return [total * own for own in mean]


def all_rows(work: Work, member: Member) -> Rows:
    """For passes over all rows, wherever they are."""
    data = work.data
    source = selected(data.source, work.columns)
    return Rows(source, data.executor, _kernel(data.n_rows), member.response.family, data.total)


def rows_of(sample: Work, member: Member) -> Rows:
    """For passes over the rows that are known."""
    response = sample.response
    weight = None if (response.weight == 1.0).all() else response.weight
    source = ArraySource(sample.codes, response.y, weight, response.offset)
    executor = ThreadExecutor(sample.settings.n_threads)
    return Rows(source, executor, _kernel(response.n_rows), member.response.family, response.total)


def _kernel(n_rows: int) -> NativeKernel:
    return NativeKernel("float64" if n_rows <= _FLOAT64_ROWS else "float32")

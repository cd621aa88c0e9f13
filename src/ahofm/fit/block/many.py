"""More rows than it takes to learn strengths: members are fitted to a sample of them, then refined on all."""

from __future__ import annotations

from functools import partial

import numpy as np

from ahofm.fit.block.member import Member
from ahofm.fit.block.problem import Rows
from ahofm.fit.block.refine import refined
from ahofm.fit.block.run import Runner
from ahofm.fit.block.stages import Fit, pass_work
from ahofm.fit.block.work import Work
from ahofm.fit.settings import Settings
from ahofm.kernels import NativeKernel
from ahofm.model import Reason
from ahofm.rows import ArraySource, ThreadExecutor

SAMPLE_ROWS = 50_000
"""So many rows settle strengths and dispersion, and where factors start."""

NEWTON_ROWS = 200_000
"""Beyond, this is the default: at order 3 and rank 12 both take as long there, and a block fit is a little better."""

_FLOAT64_ROWS = 200_000

PASSES, PASSES_BELOW = 25, 8
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


def refined_fits(member: Member, work: Work, sample: Work, runner: Runner) -> list[Fit]:
    """The member's fits at every order, refined on all rows."""
    fits = []
    for at, beliefs in enumerate(member.beliefs):
        if runner.reason is not None:
            fits.append(member.fits[at])
            continue
        last = at == len(member.beliefs) - 1
        cost = pass_work(work.response.n_rows, work.ranks, (1, *work.ranks)[at])
        try:
            new = refined(
                beliefs,
                member.additive,
                rows_of(work, member),
                rows_of(sample, member),
                member.believed(beliefs),
                member.fits[at][0].noise,
                most_passes=(work.settings.max_iter or PASSES) if last else PASSES_BELOW,
                progress=partial(runner.report, passes=1.0, work=cost),
            )
        except KeyboardInterrupt:
            runner.reason = Reason.INTERRUPTED
            fits.append(member.fits[at])
            continue
        parts = [belief.snapshot(member.additive, member.fits[at][0].noise) for belief in new]
        fits.append(tuple(part for part in parts if part is not None))
    return fits


def rows_of(work: Work, member: Member) -> Rows:
    """For passes over all of them."""
    response = work.response
    kernel = NativeKernel("float64" if response.n_rows <= _FLOAT64_ROWS else "float32")
    weight = None if (response.weight == 1.0).all() else response.weight
    source = ArraySource(work.codes, response.y, weight, response.offset)
    executor = ThreadExecutor(work.settings.n_threads)
    return Rows(source, executor, kernel, member.response.family, response.total)

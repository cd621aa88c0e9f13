"""The first fit under a time budget: one ensemble member before all else, so that there is a model when time is over.

It also tells how fast the machine is: whether cross-validation of the candidates can be done in the time that is left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ahofm.fit.cost.deadline import Deadline
from ahofm.fit.solvers.variational.posterior import Fit
from ahofm.fit.stacking.candidates import Candidate
from ahofm.fit.stacking.problem import Plan
from ahofm.tuning import FAST_INTERACTIONS, SEARCH_FRACTION


@dataclass(frozen=True)
class First:
    """A fit to all rows by the candidate of ``effort="fast"``; none where time is not limited.

    Attributes
    ----------
    candidate : int
        Its number.
    fits : list of Fit
        After each stage that it has reached.
    settled : bool
        Whether its last sweeps changed next to nothing.
    complete : bool
        Whether all stages came to their end.
    seconds : float
    """

    candidate: int = 0
    fits: list[Fit] = field(default_factory=list)
    settled: bool = False
    complete: bool = False
    seconds: float = 0.0

    def leaves_time(self, plan: Plan, deadline: Deadline) -> bool:
        """Whether cross-validation will likely end early enough for fits of what it prefers."""
        if not deadline.limited:
            return True
        search = sum(job.total for job in plan.search)
        member = (plan.total - search) / len(plan.members)
        return self.complete and search / member * self.seconds <= SEARCH_FRACTION * deadline.left


def first_candidate(candidates: Sequence[Candidate]) -> int:
    """The number of the candidate to begin with."""
    wanted = (number for number, own in enumerate(candidates) if own.interactions == FAST_INTERACTIONS)
    return next(wanted, 0)

"""What an experiment is: units of work in an order, and what to do with one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.store import Measures, Store, Unit


@dataclass(frozen=True)
class Planned:
    """A unit, and perhaps a smaller one whose cost says whether this one is worth starting.

    Attributes
    ----------
    unit : Unit
    after : Unit or None
        A smaller unit of the same method. If it was over the cap, or not run, this one is not run either.
    growth : float
        How many times the cost of the smaller one this one is expected to take.
    """

    unit: Unit
    after: Unit | None = None
    growth: float = 1.0

    def obstacle(self, store: Store, cap: float) -> str:
        """Why it is not run; empty when it is."""
        found = {} if self.after is None else store.get(self.after)
        status, cpu = found.get("status", "done"), float(found.get("cpu", "0"))
        if status.startswith(("over", "not run")):
            return f"not run: {self.after} was {status}" if status.startswith("over") else status
        if cpu * self.growth > cap:
            return f"not run: {self.after} took {cpu:.0f} s"
        return ""


@dataclass(frozen=True)
class Experiment:
    """One file of results.

    Attributes
    ----------
    name : str
    plan : function of whether it is the quick version
        Units in the order in which they are run.
    run : function of a unit and the folder of data files
        Its measures; called in a process of its own.
    packages : sequence of str
        Peers, whose versions are kept.
    """

    name: str
    plan: Callable[[bool], Iterable[Planned]]
    run: Callable[[Unit, Path | None], Measures]
    packages: Sequence[str] = ()

"""Timing on a noisy machine: candidates take turns, and only what ran in the same race is compared."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True)
class Race:
    """Seconds of every candidate in every round."""

    seconds: Mapping[str, list[float]]

    def best(self, name: str) -> float:
        """Fewest seconds of any round: what the code can do when nobody disturbs it."""
        return min(self.seconds[name])

    def median(self, name: str) -> float:
        """Median seconds of a round."""
        return median(self.seconds[name])

    def ratio(self, slow: str, fast: str) -> float:
        """Time of one candidate over the other's, each at its best: disturbances only ever slow a run down."""
        return self.best(slow) / self.best(fast)


def race(
    candidates: Mapping[str, Callable[[], object]],
    seconds: float,
    least_rounds: int = 5,
    clock: Callable[[], float] = time.perf_counter,
) -> Race:
    """Run every candidate once a round, after a warm-up, until the time is over.

    ``clock`` measures a run: by wall-clock time or, for what runs on one thread, by processor time
    (``time.process_time``), which does not count what other processes did meanwhile.
    """
    for run in candidates.values():
        run()
    taken: dict[str, list[float]] = {name: [] for name in candidates}
    begun = time.perf_counter()
    while len(next(iter(taken.values()))) < least_rounds or time.perf_counter() - begun < seconds:
        for name, run in candidates.items():
            start = clock()
            run()
            taken[name].append(clock() - start)
    return Race(taken)

"""Timing on a noisy machine: candidates take turns, the best of each counts, only ratios within a run are compared."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping


def race(candidates: Mapping[str, Callable[[], object]], seconds: float, least_rounds: int = 5) -> dict[str, float]:
    """Best seconds of each candidate, after one warm-up call, over rounds in which each runs once."""
    for run in candidates.values():
        run()
    best = dict.fromkeys(candidates, float("inf"))
    begun, rounds = time.perf_counter(), 0
    while rounds < least_rounds or time.perf_counter() - begun < seconds:
        for name, run in candidates.items():
            start = time.perf_counter()
            run()
            best[name] = min(best[name], time.perf_counter() - start)
        rounds += 1
    return best

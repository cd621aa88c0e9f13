"""When a fit has to end: the clock of ``time_budget``."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from math import inf


class StoppedError(Exception):
    """A sweep that ended between two columns: the time is over, or somebody asked to stop."""


@dataclass(frozen=True)
class Deadline:
    """Seconds by the clock from now on; None: no limit."""

    seconds: float | None = None
    begun: float = field(default_factory=time.perf_counter)

    @property
    def limited(self) -> bool:
        """Whether there is one."""
        return self.seconds is not None

    @property
    def left(self) -> float:
        """Seconds that are left, below 0 when the time is over."""
        return inf if self.seconds is None else self.begun + self.seconds - time.perf_counter()

    @property
    def over(self) -> bool:
        """Whether the time is over."""
        return self.left <= 0.0

"""What may come of a case, and how many cases came to what."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

REJECTED, IDENTICAL = "rejected", "accepted-identical"
"""What is right: an error of a documented type, or a result that is the same to the bit."""

SILENT, UNDOCUMENTED, CRASH, HANG = "silent changes", "undocumented errors", "crashes", "hangs"
"""What is wrong: another result without a word, an error nobody has promised, a process that died or did not end."""

OUTCOMES = (REJECTED, IDENTICAL, SILENT, UNDOCUMENTED, CRASH, HANG)


@dataclass(frozen=True)
class Counts:
    """Of one part.

    Attributes
    ----------
    part : str
    outcomes : dict of outcome to number of cases
    seconds : float
    bad : tuple of str
        The first cases that went wrong, as they can be run again.
    """

    part: str
    outcomes: dict[str, int]
    seconds: float
    bad: tuple[str, ...] = ()

    @classmethod
    def of(cls, part: str, found: Iterable[tuple[int, str, str]], seconds: float) -> Counts:
        """Of cases: their number, outcome and what was seen."""
        counts: Counter[str] = Counter()
        bad = []
        for case, outcome, seen in found:
            counts[outcome] += 1
            if outcome not in (REJECTED, IDENTICAL):
                bad.append(f"--part {part} --case {case}: {outcome}, {seen}")
        return cls(part, {outcome: counts[outcome] for outcome in OUTCOMES}, seconds, tuple(bad[:20]))

    @property
    def cases(self) -> int:
        """All of them."""
        return sum(self.outcomes.values())

    @property
    def passed(self) -> bool:
        """Whether nothing went wrong."""
        return self.cases == self.outcomes[REJECTED] + self.outcomes[IDENTICAL]

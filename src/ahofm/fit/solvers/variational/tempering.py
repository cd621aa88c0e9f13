"""Tempering: the fraction of the partners' variance that counts, as in a power posterior.

1 is mean-field variational Bayes, 0 takes partners as known. More of it prunes more. What is best depends on the
fraction of the loss that remains.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from ahofm.tuning import LEAST_NOISE_TEMPERING, LEAST_SIGNAL_TEMPERING, NOISE_TEMPERING

Tempering: TypeAlias = Callable[[float], float]
"""The tempering as a function of the fraction of the loss that remains: 1 where it is not known."""


@dataclass(frozen=True)
class Constant:
    """The same whatever is left."""

    tempering: float

    def __call__(self, left: float) -> float:
        """The tempering."""
        return self.tempering


def with_noise(left: float) -> float:
    """One and a half times the root of what is left, between a quarter and one: few rows are easily overfitted."""
    return float(np.clip(NOISE_TEMPERING * np.sqrt(max(left, 0.0)), LEAST_NOISE_TEMPERING, 1.0))


def against_noise(most: float, left: float) -> float:
    """Less where more is left: the signal is weak then, and smooth factors of many rows do not go for the noise."""
    return most * float(np.clip(1.0 - left, LEAST_SIGNAL_TEMPERING, 1.0))

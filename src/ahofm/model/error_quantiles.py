"""How large the errors of new rows are: quantiles of standardised errors on validation rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import stats

from ahofm.columns.basis import Floats


@dataclass(frozen=True)
class ErrorQuantiles:
    """Quantiles of the absolute errors of new rows, in units of the standard deviation of their noise.

    The noise is that of the dispersion and the variance model. Errors are larger: they contain the estimation error of
    the mean, and what the dispersion, which is estimated on the rows that were fitted, lacks.

    Attributes
    ----------
    levels : array of shape (m,)
        Probabilities of being smaller, increasing.
    quantiles : array of shape (m,)
        Of absolute standardised errors.
    """

    levels: Floats
    quantiles: Floats

    def __post_init__(self) -> None:
        """Refuse what are no quantiles."""
        if self.levels.shape != self.quantiles.shape or self.levels.ndim != 1 or not len(self.levels):
            raise ValueError(f"levels {self.levels.shape} and quantiles {self.quantiles.shape} differ in shape")
        if not ((np.diff(self.levels, prepend=0.0, append=1.0) > 0.0).all() and np.isfinite(self.quantiles).all()):
            raise ValueError("levels must increase between 0 and 1, and quantiles be finite")
        if not (self.quantiles[0] > 0.0 and (np.diff(self.quantiles) >= 0.0).all()):
            raise ValueError("quantiles must be positive and not decrease")

    def reach(self, level: float) -> float:
        """Quantile at a level: proportional to that of a normal distribution between, and beyond, those known."""
        normal, wanted = stats.norm.ppf(0.5 + 0.5 * self.levels), float(stats.norm.ppf(0.5 + 0.5 * level))
        ratio = self.quantiles / normal
        return wanted * float(np.interp(wanted, normal, ratio))

"""Units to fit in: where targets are and their scale. Knows no losses."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ahofm.columns.basis import Floats

_LARGEST = 1e153
"""Standard deviation of a target, and the inverse of the smallest: variances are finite."""


@dataclass(frozen=True)
class Units:
    """A change of units that a family allows: ``y = centre + scale y'`` and ``eta_k = shift_k + factor_k eta'_k``.

    Penalties on factors do not scale with the target, so fits are made in units in which they mean the same for all.

    Attributes
    ----------
    centre, scale : float
        Of the target.
    shift, factor : tuples of K floats
        Of the linear predictors.
    """

    centre: float
    scale: float
    shift: tuple[float, ...]
    factor: tuple[float, ...]

    @classmethod
    def unchanged(cls, n_eta: int) -> Units:
        """Make units that leave targets and linear predictors as they are.

        Parameters
        ----------
        n_eta : int
            Number K of linear predictors.

        Returns
        -------
        Units
            That change nothing.
        """
        return cls(0.0, 1.0, (0.0,) * n_eta, (1.0,) * n_eta)

    def of_target(self, y: Floats) -> Floats:
        """Convert targets.

        Parameters
        ----------
        y : array of shape (n,)
            Targets.

        Returns
        -------
        array of shape (n,)
            Targets in these units.
        """
        return (y - self.centre) / self.scale

    def of_offset(self, offset: Floats) -> Floats:
        """Convert offsets.

        Parameters
        ----------
        offset : array of shape (n, K)
            Added to the linear predictors in the units of the target.

        Returns
        -------
        array of shape (n, K)
            What is added to them in these units.
        """
        return np.asarray(offset / np.asarray(self.factor))


def location_units(y: Floats, weight: Floats, *, n_eta: int = 1, robust: bool = False) -> Units:
    """Centre 0 and scale 1, for a family whose first linear predictor moves and stretches with the target.

    Mean and standard deviation or, when ``robust``, median and ``robust_scale``: a family that is chosen because of
    outliers must not get its units from them.
    """
    if robust:
        centre, scale = weighted_quantile(y, weight, 0.5), robust_scale(y, weight)
    else:
        weight_fraction = weight / weight.sum(dtype=np.float64)
        centre = float(weight_fraction @ y)
        largest = float(np.abs(y - centre).max()) or 1.0  # squares of large numbers overflow
        scale = largest * float(np.sqrt(weight_fraction @ ((y - centre) / largest) ** 2))
    check_scale(scale, centre)
    check_scale(float(np.abs(y - centre).max()), centre)
    if not scale > 4.0 * np.finfo(float).eps * max(abs(centre), np.finfo(float).tiny):
        scale = 1.0  # a constant target, but for rounding: any unit will do
    same = Units.unchanged(n_eta)
    return replace(same, centre=centre, scale=scale, shift=(centre, *same.shift[1:]), factor=(scale, *same.factor[1:]))


def check_scale(scale: float, centre: float) -> None:
    """Raise ValueError when squares of targets leave double precision; a constant target has scale zero."""
    constant = abs(centre) < _LARGEST and scale <= 4.0 * np.finfo(float).eps * abs(centre)
    if not constant and not 1.0 / _LARGEST < scale < _LARGEST:
        raise ValueError(
            f"y is of the order of {max(scale, abs(centre)):.0e}, whose square double precision does not hold; give "
            "it in other units, e.g. divided by its mean"
        )


def scale_units(y: Floats, weight: Floats, link: str) -> Units:
    """Mean 1, for a family of positive means whose units scale; eta shifts or stretches with the link."""
    largest = float(y.max())
    mean = largest * float(np.average(y / largest, weights=weight))
    check_scale(mean, 0.0)
    shift = float(np.log(mean)) if link == "log" else 0.0
    return Units(0.0, mean, (shift,), ({"log": 1.0, "identity": mean, "inverse": 1.0 / mean}[link],))


def weighted_quantile(y: Floats, weight: Floats, level: float) -> float:
    """Smallest target with at least ``level`` of all weight at or below it."""
    order = np.argsort(y, kind="stable")
    reached = np.cumsum(weight[order], dtype=np.float64)
    return float(y[order[np.searchsorted(reached, level * reached[-1] * (1.0 - 1e-12))]])


def robust_scale(y: Floats, weight: Floats) -> float:
    """Median absolute deviation from the median, scaled to be the standard deviation of a normal target.

    When more than half of the targets are equal it is zero; then the mean absolute deviation is taken, scaled likewise
    (it moves with outliers, but less than a standard deviation does), and 1 when all targets are equal.
    """
    deviation = np.abs(y - weighted_quantile(y, weight, 0.5))
    median = 1.4826 * weighted_quantile(deviation, weight, 0.5)
    return median or float(np.sqrt(np.pi / 2.0) * (weight @ deviation) / weight.sum()) or 1.0

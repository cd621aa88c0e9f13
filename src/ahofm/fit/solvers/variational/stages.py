"""Results of the stages of a fit, one per order, and reports of the sweeps within them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from ahofm.columns.basis import Floats


@dataclass(frozen=True)
class Sweep:
    """One sweep over all columns: the order of its stage, and the objective it ends at.

    ``value`` is the noise variance of the standardised target, or the fraction of the loss that remains; ``grown`` is
    how often the order has got more factors.
    """

    order: int
    number: int
    value: float
    change: float
    grown: int = 0


@dataclass(frozen=True)
class StageResult:
    """One linear predictor at the end of a stage, in the units of the standardised target.

    Attributes
    ----------
    ranks : dict of order to rank
    intercept, noise : float
        ``noise`` is the dispersion.
    coef, centring : tuples of arrays of shape (functions, 1 + factors) and (1 + factors,), one per column
    values : tuple of arrays of shape (codes, 1 + factors)
        Means at the codes, without the smooth main effects, which ``coef`` and ``centring`` include.
    smoothing_parameters : tuple of pairs of arrays of shape (groups, 1) and (groups, factors)
    """

    ranks: Mapping[int, int]
    intercept: float
    noise: float
    coef: tuple[Floats, ...]
    centring: tuple[Floats, ...]
    values: tuple[Floats, ...]
    smoothing_parameters: tuple[tuple[Floats, Floats], ...]


Fit: TypeAlias = tuple[StageResult, ...]
"""All linear predictors."""

Report: TypeAlias = Callable[[Sweep], bool]
"""Told of every sweep; the fit ends with what it has when it returns True."""

"""What a family is: (y, eta) -> loss and its derivatives, row by row. Knows no columns, no codes, no coefficients.

A family has K linear predictors; eta is (n, K). Losses are negative log-likelihoods up to terms free of eta, with unit
dispersion, so that a weight multiplies a row's loss as if the row were there that often.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Literal, TypeAlias

import numpy as np

from ahofm.columns.basis import Floats
from ahofm.families.distributions import Distribution
from ahofm.families.links import quiet
from ahofm.families.target import TargetRange
from ahofm.families.units import Units

RowLoss: TypeAlias = tuple[Floats, Floats, Floats]
Curvature: TypeAlias = Literal["second derivative", "expectation", "majorant"]


class Family(ABC):
    """A distribution (or a robust stand-in for one) and its link. Subclasses are frozen dataclasses.

    A family of your own needs ``target``, ``loss``, ``mean`` and ``guess``, and ``n_eta`` when it has more
    than one linear predictor; the rest has defaults.
    """

    @property
    @abstractmethod
    def target(self) -> TargetRange:
        """Which targets it takes; a class attribute will do."""

    @property
    def builtin(self) -> str | None:
        """Name of the kernel's own loss that equals ``loss``, when there is one."""
        return None

    @property
    def name(self) -> str:
        """How it is called in messages and tables."""
        return type(self).__name__

    @property
    def n_eta(self) -> int:
        """Number K of linear predictors."""
        return 1

    @property
    def takes_flat_offset(self) -> bool:
        """Whether an offset with one number per row is clear: it goes to the first linear predictor."""
        return True

    @property
    def curvature(self) -> Curvature:
        """What h is; never negative in any case.

        "second derivative" of the loss by a linear predictor; its "expectation" over the family's targets (the Fisher
        information); or a "majorant": the quadratic with slope g and curvature h equals the loss at eta and is nowhere
        below it, so that a full step never increases the loss.
        """
        return "second derivative"

    @property
    def logarithmic(self) -> bool:
        """Whether linear predictors are logarithms, of means or of odds: beyond 20 they say never or always."""
        return False

    @property
    def open(self) -> bool:
        """Whether it has parameters that ``learned`` estimates; a field of the families that have."""
        return False

    @property
    def dispersed(self) -> bool:
        """Whether the loss counts in units of a dispersion that is estimated; otherwise that is 1."""
        return False

    @property
    def if_overdispersed(self) -> str | None:
        """What to do where targets vary more than it says; None where its dispersion is estimated, or has none."""
        return None

    @abstractmethod
    def loss(self, y: Floats, eta: Floats) -> RowLoss:
        """Loss (n,), its slope g (n, K) and curvature h >= 0 (n, K) by each linear predictor.

        Infinite, never NaN, where the link has no value or the loss overflows.
        """

    def expected(self, y: Floats, eta: Floats, variance: Floats) -> RowLoss:
        """The same when linear predictors have variances (n, K), for a family that must not overlook them.

        A family with a linear predictor of the standard deviation must not: a mean that is fitted closely but is
        uncertain would make it zero.
        """
        del variance
        return self.loss(y, eta)

    @abstractmethod
    def mean(self, eta: Floats) -> Floats:
        """What is predicted: (n,), or (n, K) probabilities."""

    @abstractmethod
    def guess(self, y: Floats, weight: Floats) -> Floats:
        """Linear predictors (K,) of a model without columns, near enough to start from."""

    def floor(self, y: Floats) -> Floats | None:
        """Smallest loss that any eta reaches, (n,); None when there is none."""
        return np.zeros_like(y)

    def deviance(self, y: Floats, eta: Floats) -> Floats | None:
        """Twice the loss above its floor, (n,); rounding does not take it below zero."""
        floor = self.floor(y)
        return None if floor is None else 2.0 * np.maximum(self.loss(y, eta)[0] - floor, 0.0)

    def pearson(self, y: Floats, eta: Floats) -> Floats:
        """What estimates the dispersion by its mean, (n,): squared residuals in units of the variance function.

        By default ``g^2 / h`` of the first linear predictor, which is right where h is the Fisher information.
        """
        _, g, h = self.loss(y, eta)
        with quiet():
            return np.asarray(np.where(g[:, 0] == 0, 0.0, g[:, 0] ** 2 / h[:, 0]))

    def majorant(self, eta: Floats, variance: Floats) -> Floats | None:
        """Curvatures (n, K) of quadratic majorants of the loss at eta, where ``h`` is not one already.

        ``variance`` (n, K) is that of eta. None when there is no such bound: steps are then halved where they must be.
        """
        del eta, variance
        return None

    def learned(self, y: Floats, eta: Floats, weight: Floats) -> Family:
        """The family with its open parameters (a shape, a power) estimated at linear predictors (n, K)."""
        del y, eta, weight
        return self

    def distribution(self, eta: Floats, dispersion: float) -> Distribution:
        """Of new targets at linear predictors (n, K)."""
        raise NotImplementedError(f"{self.name} does not say how its targets are distributed: give it `distribution`")

    def filled(self, y: Floats, weight: Floats) -> Family:
        """The family with settings left open filled in from the target, in the units of the target."""
        del y, weight
        return self

    def standardised(self, y: Floats, weight: Floats) -> tuple[Family, Units]:
        """The family, filled in, and the units to fit in."""
        return self.filled(y, weight), Units.unchanged(self.n_eta)

    def check(self, y: Floats) -> None:
        """Raise ValueError when the family cannot be fitted to the target."""
        if np.isnan(y).any():
            raise ValueError(f"y is NaN in row {np.flatnonzero(np.isnan(y))[0]}; drop rows without a target")
        bad = np.flatnonzero(~self.target.includes(y))
        if len(bad):
            raise ValueError(
                f"y must hold {self.target} for {self.name}, got {y[bad[0]]:g} in row {bad[0]}"
                + (f" (and {len(bad) - 1} more)" if len(bad) > 1 else "")
            )

    def start(self, y: Floats, weight: Floats, offset: Floats | None = None) -> Floats:
        """Linear predictors (K,) of the best model without columns, by damped Newton steps from the guess."""
        rows = weight > 0  # a row without weight must not count, not even with an infinite loss
        y, fraction = y[rows].astype(np.float64), weight[rows] / weight.sum(dtype=np.float64)
        shifts = np.zeros((len(y), self.n_eta)) if offset is None else offset[rows].astype(np.float64)

        def at(eta: Floats) -> tuple[float, Floats, Floats]:
            with quiet():
                value, g, h = self.loss(y, eta + shifts)
                return float(fraction @ value), fraction @ g, fraction @ h

        # The smallest or the largest offset keeps all rows inside the link when the mean offset does not.
        guess = np.asarray(self.guess(y, fraction), dtype=np.float64)
        eta = min(
            (guess - shift for shift in (fraction @ shifts, shifts.min(0), shifts.max(0))), key=lambda e: at(e)[0]
        )
        secant = self.n_eta == 1 and self.curvature != "second derivative"  # steps by h alone would be many
        value, g, h = at(eta)
        for _ in range(200):
            step = -g / np.where(h > 0, h, 1.0)
            if not -(g @ step) > 1e-16 * abs(value):
                break
            for _ in range(60):
                new = at(eta + step)
                # A fair part of what the slope promises: h knows no cross terms, and a step that lands as high on the
                # other side would be taken for ever. The last term is rounding.
                if new[0] <= value + 0.2 * (g @ step) + 4e-16 * abs(value):
                    break
                step = 0.5 * step
            else:
                break
            bend = (new[1] - g) / step if secant else -np.ones_like(g)
            eta, value, g, h = eta + step, new[0], new[1], np.where(bend > 0, bend, new[2])
        return np.asarray(eta)

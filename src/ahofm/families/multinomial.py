"""Several classes, one linear predictor each."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import ClassVar

import numpy as np
from scipy.special import softmax

from ahofm.columns.basis import Floats
from ahofm.families.bernoulli import logistic_bound
from ahofm.families.distributions import Categories, Distribution
from ahofm.families.family import Family, RowLoss
from ahofm.families.target import TargetRange
from ahofm.kernels import LOSSES, log_of_sum


@dataclass(frozen=True)
class Multinomial(Family):
    """``-log mu_y`` with ``mu = softmax(eta)``; targets are the numbers 0 .. K - 1 of the classes.

    All classes have a linear predictor. Adding the same to all of them changes nothing; penalties choose among the
    equals.

    Parameters
    ----------
    n_classes : int

    Examples
    --------
    >>> from ahofm import AHOFMClassifier
    >>> colour = np.where(X.wind > rng.normal(size=300), "red", rng.choice(["green", "blue"], 300))
    >>> classes = AHOFMClassifier(order=1, random_state=0).fit(X, colour)  # finds the family itself
    >>> classes.predict_proba(X[:2]).shape
    (2, 3)
    """

    n_classes: int

    builtin: ClassVar[str] = "multinomial"

    def __post_init__(self) -> None:
        """Refuse what is no number of classes."""
        if isinstance(self.n_classes, bool) or not isinstance(self.n_classes, Integral) or self.n_classes < 2:
            raise ValueError(
                f"{self.name}: n_classes must be an integer of at least 2, got {self.n_classes!r}; "
                "give the number of distinct classes in y"
            )

    @property
    def target(self) -> TargetRange:
        """The numbers of the classes."""
        return TargetRange(0.0, self.n_classes - 1.0, low_included=True, high_included=True, whole=True)

    @property
    def takes_flat_offset(self) -> bool:
        """No class comes first."""
        return False

    @property
    def n_eta(self) -> int:
        """One a class."""
        return int(self.n_classes)

    @property
    def logarithmic(self) -> bool:
        """Always."""
        return True

    def loss(self, y: Floats, eta: Floats) -> RowLoss:
        """``log(sum_k exp(eta_k)) - eta_y``; h is the diagonal ``mu (1 - mu)`` of the second derivatives."""
        return LOSSES["multinomial"](y, eta)

    def majorant(self, eta: Floats, variance: Floats) -> Floats:
        """Of each linear predictor given the others: a logistic loss in its distance to the logarithm of their sum."""
        others = [log_of_sum(np.delete(eta, k, axis=1)) for k in range(self.n_classes)]
        return logistic_bound((eta - np.stack(others, axis=1)) ** 2 + variance)

    def mean(self, eta: Floats) -> Floats:
        """The probability of each class, (n, K)."""
        return np.asarray(softmax(eta, axis=1))

    def distribution(self, eta: Floats, dispersion: float) -> Distribution:
        """The classes."""
        del dispersion
        return Categories(self.mean(eta))

    def guess(self, y: Floats, weight: Floats) -> Floats:
        """Logarithms of the classes' shares, centred: the best constants."""
        mass = np.bincount(y.astype(np.intp), weights=weight, minlength=self.n_classes)
        eta = np.log(np.maximum(mass / mass.sum(), 1e-15))
        return np.asarray(eta - eta.mean())

    def check(self, y: Floats) -> None:
        """A class without rows has no finite fit."""
        super().check(y)
        absent = np.flatnonzero(np.bincount(y.astype(np.intp), minlength=self.n_classes) == 0)
        if len(absent):
            raise ValueError(
                f"y has no row of class {', '.join(map(str, absent))}; {self.name}(n_classes={self.n_classes}) needs "
                f"all of 0 .. {self.n_classes - 1}: number the classes that occur"
            )

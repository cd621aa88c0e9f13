"""Smooth main effects of all columns at some rows, and the sums over rows that their normal equations need."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ahofm.columns.basis import Floats
from ahofm.kernels.native_engine import weighted_grams


@dataclass(frozen=True)
class MainSums:
    """Sums over rows with working weights w and weighted working responses z, for an intercept and coefficients.

    Attributes
    ----------
    total, total_response : float
        ``sum w`` and ``sum z``.
    gram : array of shape (m, m)
        ``D' W D`` of the design D, centred at ``middle``.
    rhs : array of shape (m,)
        ``D' z``, of the centred design.
    middle : array of shape (m,)
        Weighted means of the design.
    """

    total: float
    total_response: float
    gram: Floats
    rhs: Floats
    middle: Floats


@dataclass(frozen=True)
class DesignRows:
    """A design at rows, centred by the rows' own weights.

    Attributes
    ----------
    values : array of shape (n, m)
    weight : array of shape (n,)
    """

    values: Floats
    weight: Floats

    @cached_property
    def gram(self) -> Floats:
        """Gram matrix at the rows' own weights."""
        return weighted_gram(self.values, self.weight)

    def eta(self, intercept: float, coef: Floats) -> Floats:
        """Main effects of each row: (n,)."""
        return np.asarray(self.values @ coef + intercept)

    def sums(self, weight: Floats, weighted_response: Floats, like: MainSums | None = None) -> MainSums:
        """At working weights and weighted working responses, (n,) each; ``like``: earlier sums at the same weights."""
        total, total_response, size = float(weight.sum()), float(weighted_response.sum()), self.values.shape[1]
        none = np.zeros(size)
        if not size or not total > np.finfo(float).tiny:
            return MainSums(total, total_response, np.zeros((size, size)), none, none)
        if weight is self.weight:  # then the design is centred already
            return MainSums(total, total_response, self.gram, self.values.T @ weighted_response, none)
        if like is not None:
            rhs = self.values.T @ weighted_response - like.middle * total_response
            return MainSums(total, total_response, like.gram, rhs, like.middle)
        middle = np.asarray(weight @ self.values) / total
        gram = weighted_gram(self.values, weight) - total * np.outer(middle, middle)
        rhs = self.values.T @ weighted_response - middle * total_response
        return MainSums(total, total_response, gram, rhs, middle)


def weighted_gram(design: Floats, weight: Floats) -> Floats:
    """``D' W D`` (m, m) of a design (n, m) at weights (n,)."""
    (gram,) = weighted_grams(design, weight[np.newaxis])
    return np.asarray(gram)

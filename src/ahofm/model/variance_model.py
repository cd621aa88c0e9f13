"""How the variance of Gaussian targets differs between rows: what intervals for new targets follow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ahofm.backends import backend_of
from ahofm.columns import Codebook
from ahofm.columns.basis import Floats
from ahofm.model.predictor import Predictor


@dataclass(frozen=True)
class VarianceModel:
    """Standard deviations of targets, relative to that of the model: ``exp(f_1(x_1) + ... + f_p(x_p) + h(eta))``.

    Their mean square over validation rows is 1: the dispersion of the model is the mean variance.

    Attributes
    ----------
    effects : Predictor
        Additive effects of the columns on the logarithm.
    knots, log_factors : arrays of shape (m,)
        h: linear between values of the linear predictor, constant beyond the first and the last.
    """

    effects: Predictor
    knots: Floats
    log_factors: Floats

    def __post_init__(self) -> None:
        """Refuse parts that do not belong together."""
        if self.effects.orders:
            raise ValueError(f"a variance model has main effects only, got {dict(self.effects.orders)}")
        if self.knots.shape != self.log_factors.shape or self.knots.ndim != 1 or not len(self.knots):
            raise ValueError(f"knots {self.knots.shape} and factors {self.log_factors.shape} differ in shape")
        if not (np.diff(self.knots) > 0.0).all():
            raise ValueError("knots must increase")

    def of_columns(self, books: Sequence[Codebook], places: Sequence[NDArray[Any]]) -> Floats:
        """Effects (n,) of the columns on the logarithm, at positions in their codebooks."""
        return backend_of().curves((self.effects.curves(books),)).eta(places, 1)[:, 0]

    def of_mean(self, eta: Floats) -> Floats:
        """Effect (n,) of the linear predictor on the logarithm."""
        return np.asarray(np.interp(eta, self.knots, self.log_factors))

"""What a fitted distribution is good for: degrees of freedom, new targets, likelihoods, where targets lie in it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from ahofm.columns.basis import Floats
from ahofm.columns.table import Table
from ahofm.model import Band, Model
from ahofm.model.scores import log_likelihood, pit, sample


class Distributional:
    """For estimators with a model and its band, and ways to read tables and targets."""

    model_: Model

    def _read(self, X: Any) -> Table:
        raise NotImplementedError

    def _target(self, y: Any) -> Floats:
        raise NotImplementedError

    def _band(self) -> Band:
        raise NotImplementedError

    @property
    def edf_(self) -> dict[int, Floats]:
        """Effective degrees of freedom of every column, by order; of all predictors together."""
        freedom = self._band().freedom
        return {order: sum((part[order] for part in freedom), np.zeros(1)) for order in freedom[0]}

    def sample(self, X: Any, n: int = 1, offset: ArrayLike | None = None, random_state: Any = None) -> Floats:
        """Draw new targets from the fitted distribution: (n, rows); numbers of classes for a classifier."""
        table = self._read(X)
        return sample(self.model_, table, n, random_state, offset)

    def log_likelihood(
        self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None, offset: ArrayLike | None = None
    ) -> float:
        """Weighted sum of the logarithms of the fitted densities, or probabilities, of targets."""
        table = self._read(X)
        return log_likelihood(self.model_, table, self._target(y), sample_weight, offset)

    def aic(
        self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None, offset: ArrayLike | None = None
    ) -> float:
        """Minus twice the log-likelihood, plus twice the effective degrees of freedom, of the rows of training.

        Intercepts, a dispersion and a parameter of the family count one each.
        """
        check_is_fitted(self, "model_")
        extra = self.model_.family.n_predictors + self.model_.family.dispersed + self.model_.family.open
        freedom = float(sum(part.sum() for part in self.edf_.values())) + extra
        return -2.0 * self.log_likelihood(X, y, sample_weight, offset) + 2.0 * freedom

    def pit(self, X: Any, y: ArrayLike, offset: ArrayLike | None = None, random_state: Any = 0) -> Floats:
        """Where targets lie in their fitted distributions: uniform on (0, 1) when the model is right.

        Counts and classes are spread at random over their step.
        """
        table = self._read(X)
        return pit(self.model_, table, self._target(y), random_state, offset)

"""What a fit would cost, in one call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike

from ahofm.estimators.regressor import AHOFMRegressor

if TYPE_CHECKING:
    from ahofm.cost import Forecast


def forecast(
    X: Any,
    y: ArrayLike | None = None,
    *,
    sample_weight: ArrayLike | None = None,
    offset: ArrayLike | None = None,
    **settings: Any,
) -> Forecast:
    """Predict what the fit of a regressor would cost in time and memory, by a second's work on some rows.

    Parameters
    ----------
    X : table of n rows
        As for ``fit``.
    y : array of shape (n,), optional
        Not needed for a Gaussian fit.
    sample_weight : array of shape (n,), optional
        Weights of the rows.
    offset : array of shape (n,) or (n, linear predictors), optional
        Added to the linear predictor.
    **settings
        Parameters of :class:`AHOFMRegressor`: ``order``, ``rank``, ``columns``, ``family``, ``n_jobs`` and so on.

    Returns
    -------
    Forecast
        ``print`` it, or read ``seconds`` and ``memory``.

    Examples
    --------
    >>> import numpy as np
    >>> import ahofm
    >>> cost = ahofm.forecast(np.random.default_rng(0).normal(size=(500, 3)), order=2, n_members=1)
    >>> cost.seconds < 600, cost.memory < 1e9
    (True, True)
    """
    return AHOFMRegressor(**settings).forecast(X, y, sample_weight, offset)

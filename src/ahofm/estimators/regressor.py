"""The regressor."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import RegressorMixin
from sklearn.utils.validation import _check_y, check_consistent_length

from ahofm.estimators.base import AHOFM
from ahofm.families import Gaussian, find_family


class AHOFMRegressor(RegressorMixin, AHOFM):  # type: ignore[misc]
    """Regression with all spline interactions up to an order.

    Parameters
    ----------
    order : int, default 2
        Highest order of interactions: 1 is a generalised additive model, 2 adds all pairs, 3 all triples, and so on.
        More than there are columns is reduced with a warning.
    rank : int or dict of order to int, default 5
        Number of factors for each order from 2 on. An order that a dict leaves out has none.
    columns : dict of column name or position to kind, one kind for all, or None
        What columns become, e.g. ``{"hour": Cyclic(period=24)}``; the others are chosen by their data. With
        ``Linear()`` for all the model is a factorization machine.
    family : str or Family, default "auto"
        "auto" is Gaussian. Other names are in ``ahofm.families.FAMILIES``; an object of your own will do too.
    smoothing : "df", default "df"
        How the strengths of the penalties are chosen: from degrees of freedom, the same for all columns of an order
        unless ``df`` says otherwise.
    df : number or dict, optional
        Degrees of freedom of a column's functions: one number; or a dict with entries per order, ``{1: 15, 2: 6}``,
        per column, ``{"age": 4}``, or both, ``{2: {"age": 3}}``. What is not given is 10 for main effects and 8 for
        factors, or nearly as many as a column has functions when it has no more than that.
    df_kind : "residual" or "hat", default "residual"
        ``tr(2H - H'H)`` or ``tr(H)``, H the hat matrix of a penalised regression on the column alone.
    ridge : float, default 0.01
        Penalty, per unit of weight, of what smoothness leaves free in a factor: its linear part. 0 is the paper's
        penalty, whose objective may fall for ever as one factor grows and its partners shrink.
    solver : "auto", "lbfgs", "bcd", "adam" or a solver, default "auto"
        Full-batch quasi-Newton, block coordinate descent, or mini-batches with early stopping. "auto" is "lbfgs".
    center : bool, default True
        Take the constant out of every factor: interactions then hold no lower-order part, and are identifiable.
    max_codes : int, default 254
        Columns with more distinct numbers are binned for the fit (never for predictions).
    validation_fraction : float or None, default 0.1
        Share of rows that "adam" sets aside to decide when to stop; 0 or None: the training objective decides.
    patience : int, default 50
        Epochs without improvement after which "adam" stops.
    max_iter : int, default 1000
        Iterations of "lbfgs", sweeps of "bcd", epochs of "adam".
    tol : float, default 1e-4
        "lbfgs" and "bcd" stop when ten iterations gain less than this share of what was gained since the start.
    n_jobs : int or None, default None
        Threads; None and -1 use all cores.
    random_state : int, RandomState or None
        Seed of the factors' start, and of the rows that "adam" sets aside and shuffles.
    verbose : int, default 0
        1 shows a progress bar.
    callbacks : sequence of functions, optional
        Called with a :class:`ahofm.model.Record` after every iteration; a fit stops when one returns True.

    Attributes
    ----------
    model_ : Model
        The frozen model: ``eta``, ``predict``, ``save``.
    trace_ : Trace
        One record per iteration, and the reason for stopping.
    n_iter_ : int
    n_features_in_ : int
    feature_names_in_ : array, when the columns of X have names

    Examples
    --------
    >>> import numpy as np
    >>> from ahofm import AHOFMRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(500, 3))
    >>> y = np.sin(X[:, 0]) * X[:, 1] + 0.1 * rng.normal(size=500)
    >>> model = AHOFMRegressor(order=2, random_state=0).fit(X, y)
    >>> round(model.score(X, y), 2)
    0.96
    """

    def fit(
        self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None, offset: ArrayLike | None = None
    ) -> AHOFMRegressor:
        """Fit the model.

        Parameters
        ----------
        X : array of shape (n, columns), or a pandas, polars or Arrow table
            Numbers or text; NaN and None are missing values.
        y : array of shape (n,)
        sample_weight : array of shape (n,), optional
            Integer weights act as repeated rows, zeros as absent ones.
        offset : array of shape (n,) or (n, predictors), optional
            Added to the predictor, e.g. the log of an exposure.
        """
        table = self._read(X, reset=True)
        target = np.asarray(_check_y(y, multi_output=False, y_numeric=True, estimator=self), dtype=np.float64)
        check_consistent_length(table.columns[0], target)
        family = Gaussian() if isinstance(self.family, str) and self.family == "auto" else find_family(self.family)
        self._fit(table, target, sample_weight, offset, family)
        return self

    def score(
        self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None, offset: ArrayLike | None = None
    ) -> float:
        """Share of the family's deviance explained: R^2 for the Gaussian, and D^2 for the others.

        Families without a deviance (location and scale) give the R^2 of the mean.
        """
        return self.model_.deviance_explained(self._read(X), y, sample_weight, offset, n_threads=self._threads())

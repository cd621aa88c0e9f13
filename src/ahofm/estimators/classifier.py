"""The classifier."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_y, check_consistent_length, check_is_fitted

from ahofm.columns.basis import Floats
from ahofm.columns.table import Table
from ahofm.estimators.base import AHOFM
from ahofm.estimators.dask_input import dataset_of, lazily
from ahofm.estimators.partial_fit import fit_piece
from ahofm.families import Bernoulli, Family, Multinomial, find_family
from ahofm.model import check_weight
from ahofm.scale.partitions import is_dask


class AHOFMClassifier(ClassifierMixin, AHOFM):  # type: ignore[misc]  # scikit-learn has no types
    """Classification with all spline interactions up to an order.

    Parameters are those of ``AHOFMRegressor``, except for

    family : str or Family, default "auto"
        "auto" is Bernoulli for two classes and Multinomial, with a linear predictor per class, for more.

    Attributes
    ----------
    classes_ : array of shape (classes,)
    model_, trace_, n_iter_, n_features_in_, feature_names_in_
        As for ``AHOFMRegressor``.

    Examples
    --------
    >>> import numpy as np
    >>> from ahofm import AHOFMClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 3))
    >>> y = np.where(X[:, 0] * X[:, 1] + 0.5 * rng.normal(size=300) > 0, "same", "other")
    >>> model = AHOFMClassifier(order=2, random_state=0).fit(X, y)
    >>> model.predict([[1.0, 1.0, 0.0], [1.0, -1.0, 0.0]])
    array(['same', 'other'], dtype='<U5')
    """

    def fit(
        self,
        X: Any,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        offset: ArrayLike | None = None,
    ) -> AHOFMClassifier:
        """Fit the model.

        Ctrl-C raises KeyboardInterrupt as ever; the best model so far is kept before that, as by a regressor.

        Parameters
        ----------
        X : array of shape (n, columns), a pandas, polars or Arrow table, a Dask collection or a CodeStore
            Numbers or text; NaN and None are missing values. With a Dask collection the others are Dask collections of
            the same partitions; an :class:`ahofm.scale.CodeStore` has targets, weights and offsets with it.
        y : array of shape (n,)
            Labels of any kind.
        sample_weight : array of shape (n,), optional
            Numbers of rows: 2 is a row that is there twice, 0 one that is absent. Relative weights should have mean 1.
        offset : array of shape (n,) or (n, linear predictors), optional
            Added to the linear predictor.
        """
        if (rows := dataset_of(self, X, y, sample_weight, offset)) is not None:
            if rows.target.labels is None:
                raise ValueError("the target has too many different values to be classes; use AHOFMRegressor")
            classes = self._classes(np.asarray(rows.target.labels))
            self._fit(rows, None, None, None, self._family(len(classes)), classes)
            return self
        table, labels = self._checked(X, y, reset=True)
        weight = check_weight(sample_weight, len(labels))
        classes = self._classes(np.unique(labels[weight > 0]))
        family = self._family(len(classes))
        at = np.minimum(np.searchsorted(classes, labels), len(classes) - 1)
        self._fit(table, at.astype(np.float64), sample_weight, offset, family, classes)
        return self

    def partial_fit(
        self,
        X: Any,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        offset: ArrayLike | None = None,
    ) -> AHOFMClassifier:
        """Fit all rows of this and earlier calls; see :meth:`AHOFMRegressor.partial_fit`.

        Parameters
        ----------
        classes : array of labels, optional
            All that will ever come, at the first call; by default those in ``y``, of which all must be there.
        """
        first = not hasattr(self, "model_")
        table, labels = self._checked(X, y, reset=first)
        found = self._classes(np.unique(labels if classes is None else np.asarray(classes))) if first else self.classes_
        at = _places(found, labels)
        fit_piece(self, table, at, sample_weight, offset, self._family(len(found)), found)
        return self

    def _checked(self, X: Any, y: Any, *, reset: bool) -> tuple[Table, NDArray[Any]]:
        table = self._read(X, reset=reset)
        labels = _check_y(y, multi_output=False, estimator=self)
        check_classification_targets(labels)
        check_consistent_length(table.columns[0], labels)
        return table, labels

    def predict(self, X: Any, offset: ArrayLike | None = None) -> NDArray[Any]:
        """The most likely class of each row.

        Parameters
        ----------
        X : table with the columns of training
        offset : array of shape (n,) or (n, linear predictors), optional
            Added to the linear predictor.
        """
        if is_dask(X):
            check_is_fitted(self, "model_")
            return lazily(self, "predict", X, offset, width=None, dtype=self.classes_.dtype)
        table = self._read(X)
        return self.model_.predict(table, offset, n_threads=self._threads())

    def predict_proba(self, X: Any, offset: ArrayLike | None = None) -> Floats:
        """Probability of each class: (n, classes)."""
        if is_dask(X):
            check_is_fitted(self, "model_")
            return lazily(self, "predict_proba", X, offset, width=len(self.classes_))
        table = self._read(X)
        mean = self.model_.mean(table, offset, n_threads=self._threads())
        return mean if mean.ndim == 2 else np.column_stack([1.0 - mean, mean])

    def predict_log_proba(self, X: Any, offset: ArrayLike | None = None) -> Floats:
        """Logarithms of the probabilities: (n, classes)."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.predict_proba(X, offset)))

    def decision_function(self, X: Any, offset: ArrayLike | None = None) -> Floats:
        """Linear predictors before the link: (n,) log odds for two classes, else (n, classes)."""
        return cast("Floats", self.predict_eta(X, offset))

    def score(
        self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None, offset: ArrayLike | None = None
    ) -> float:
        """Share of rows classified right."""
        right = self.predict(X, offset) == np.asarray(y)
        return float(np.average(right, weights=check_weight(sample_weight, len(right))))

    def _target(self, y: Any) -> Floats:
        """Numbers of the classes."""
        return _places(self.classes_, np.asarray(y))

    def _classes(self, classes: NDArray[Any]) -> NDArray[Any]:
        if len(classes) < 2:
            raise ValueError(
                f"{type(self).__name__} needs at least two classes in y, got only one class: {classes.tolist()[0]!r}"
            )
        return classes

    def _asked(self, y: Any) -> tuple[Floats | None, Family]:
        if y is None:
            raise ValueError("y is needed to forecast the fit of a classifier: it says how many classes there are")
        classes, at = np.unique(np.asarray(y), return_inverse=True)
        return at.astype(np.float64), self._family(len(classes))

    def _family(self, n_classes: int) -> Family:
        if isinstance(self.family, str) and self.family in ("auto", "multinomial"):
            if n_classes == 2 and self.family == "auto":
                return Bernoulli()
            return Multinomial(n_classes)
        family = find_family(self.family)
        if family.n_eta == 1 and n_classes > 2:
            raise ValueError(f"family {family.name} has two classes, but y has {n_classes}; use family='auto'")
        return family


def _places(classes: NDArray[Any], labels: NDArray[Any]) -> Floats:
    """Numbers of the classes; raises ValueError for a label that is none."""
    at = np.minimum(np.searchsorted(classes, labels), len(classes) - 1)
    if (classes[at] != labels).any():
        raise ValueError("y has classes that were not there in training")
    return at.astype(np.float64)

"""From a model file to a fitted estimator."""

from __future__ import annotations

import os

from ahofm.estimators.classifier import AHOFMClassifier
from ahofm.estimators.regressor import AHOFMRegressor
from ahofm.model import Model
from ahofm.model import load as load_model


def load(path: str | os.PathLike[str]) -> AHOFMRegressor | AHOFMClassifier:
    """Read a fitted estimator from a model file.

    The file holds the model, with its band unless it was saved without. It does not hold training rows: ``summary`` has
    no deviance explained and ``report`` no diagnostics, and ``partial_fit`` cannot go on. Nor does it hold settings of
    the fit: ``order`` and ``family`` are those of the model, the other parameters have their defaults.

    Parameters
    ----------
    path : str or path
        A file that ``estimator.save`` or the command ``ahofm fit`` has written, in this version or an earlier one.

    Returns
    -------
    AHOFMRegressor or AHOFMClassifier
        Fitted: a classifier when the model has classes.

    Raises
    ------
    ahofm.model.ModelFileError
        For a file that is no model file or is damaged, and for one that a newer version of ahofm has written.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import ahofm
    >>> path = Path(tempfile.mkdtemp()) / "model.ahofm"
    >>> model.save(path)
    >>> again = ahofm.load(path)
    >>> bool(np.allclose(again.predict_interval(X), model.predict_interval(X)))
    True
    >>> bool(np.array_equal(again.predict(X[["sun", "rain", "wind"]]), model.predict(X)))
    True
    """
    return as_estimator(load_model(path))


def as_estimator(model: Model) -> AHOFMRegressor | AHOFMClassifier:
    """A fitted estimator of a model: a classifier when it has classes."""
    made = AHOFMRegressor if model.classes is None else AHOFMClassifier
    fitted = made(order=model.order, family=model.family)
    fitted._keep(model)
    return fitted

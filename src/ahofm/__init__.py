"""Additive higher-order factorization machines: a GAM with all spline interactions, at the cost of one with none."""

from importlib.metadata import version

from ahofm.columns import Categorical, Cyclic, Date, Linear, RandomWalk, Spline, SplineIID
from ahofm.estimators import AHOFMClassifier, AHOFMHazard, AHOFMRegressor, forecast, load

__version__ = version("ahofm")

__all__ = [
    "AHOFMClassifier",
    "AHOFMHazard",
    "AHOFMRegressor",
    "Categorical",
    "Cyclic",
    "Date",
    "Linear",
    "RandomWalk",
    "Spline",
    "SplineIID",
    "__version__",
    "forecast",
    "load",
]

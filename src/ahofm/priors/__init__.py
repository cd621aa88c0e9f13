"""Gaussian priors of a column's functions, one file each, and the rule that estimates their smoothing parameters."""

from ahofm.priors.base import FunctionPosterior, Prior
from ahofm.priors.column import ColumnPriors, column_priors
from ahofm.priors.fellner_schall import updated
from ahofm.priors.iid import IIDPrior, SplineIIDPrior
from ahofm.priors.random_walk import RandomWalkPrior
from ahofm.priors.spline import SplinePrior

__all__ = [
    "ColumnPriors",
    "FunctionPosterior",
    "IIDPrior",
    "Prior",
    "RandomWalkPrior",
    "SplineIIDPrior",
    "SplinePrior",
    "column_priors",
    "updated",
]

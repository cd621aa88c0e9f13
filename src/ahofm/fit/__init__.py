"""Fitting: the objective, smoothing parameters, solvers and the way from a table to a model."""

from ahofm.fit.api import fit_model
from ahofm.fit.solvers.adam import Adam
from ahofm.fit.solvers.base import Objective, Solver, State, minimise
from ahofm.fit.solvers.bcd import Bcd
from ahofm.fit.solvers.lbfgs import Lbfgs
from ahofm.fit.solvers.penalised import random_start
from ahofm.fit.stacking.candidates import Candidate
from ahofm.priors.df import degrees_of_freedom, smoothing_parameter_of, smoothing_parameters_of
from ahofm.training.runner import Callback
from ahofm.training.settings import SOLVERS, OrderWarning, Settings, TimeBudgetWarning

__all__ = [
    "SOLVERS",
    "Adam",
    "Bcd",
    "Callback",
    "Candidate",
    "Lbfgs",
    "Objective",
    "OrderWarning",
    "Settings",
    "Solver",
    "State",
    "TimeBudgetWarning",
    "degrees_of_freedom",
    "fit_model",
    "minimise",
    "random_start",
    "smoothing_parameter_of",
    "smoothing_parameters_of",
]

"""Fitting: the objective, smoothing strengths, solvers and the way from a table to a model."""

from ahofm.fit.adam import Adam
from ahofm.fit.bcd import Bcd
from ahofm.fit.capacity import OrderWarning
from ahofm.fit.dispersion import DispersionWarning
from ahofm.fit.forecast import Forecast, forecast_fit
from ahofm.fit.lbfgs import Lbfgs
from ahofm.fit.objective import Objective
from ahofm.fit.settings import SOLVERS, Settings
from ahofm.fit.smoothing import degrees_of_freedom, strength_of, strengths_of
from ahofm.fit.solver import Callback, Solver, State, minimise
from ahofm.fit.start import random_start
from ahofm.fit.train import fit_model

__all__ = [
    "SOLVERS",
    "Adam",
    "Bcd",
    "Callback",
    "DispersionWarning",
    "Forecast",
    "Lbfgs",
    "Objective",
    "OrderWarning",
    "Settings",
    "Solver",
    "State",
    "degrees_of_freedom",
    "fit_model",
    "forecast_fit",
    "minimise",
    "random_start",
    "strength_of",
    "strengths_of",
]

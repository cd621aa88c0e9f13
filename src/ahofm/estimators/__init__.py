"""The scikit-learn face: validate, fit, freeze."""

from ahofm.estimators.classifier import AHOFMClassifier
from ahofm.estimators.cost import forecast
from ahofm.estimators.files import load
from ahofm.estimators.hazards import AHOFMHazard
from ahofm.estimators.regressor import AHOFMRegressor
from ahofm.estimators.training import TrainingRows

__all__ = ["AHOFMClassifier", "AHOFMHazard", "AHOFMRegressor", "TrainingRows", "forecast", "load"]

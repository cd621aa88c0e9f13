"""The scikit-learn face: validate, fit, freeze."""

from ahofm.estimators.classifier import AHOFMClassifier
from ahofm.estimators.cost import forecast
from ahofm.estimators.regressor import AHOFMRegressor

__all__ = ["AHOFMClassifier", "AHOFMRegressor", "forecast"]

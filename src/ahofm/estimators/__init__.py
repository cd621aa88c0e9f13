"""The scikit-learn face: validate, fit, freeze."""

from ahofm.estimators.classifier import AHOFMClassifier
from ahofm.estimators.regressor import AHOFMRegressor, forecast

__all__ = ["AHOFMClassifier", "AHOFMRegressor", "forecast"]

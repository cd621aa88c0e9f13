"""Inference after a fit: dispersion, the band of linear predictors, tests of effects, edf, concurvity."""

from ahofm.inference.dispersion import DispersionWarning
from ahofm.inference.uncertainty import band_of

__all__ = ["DispersionWarning", "band_of"]

"""Inference after a fit: the band of linear predictors, tests of effects, effective degrees of freedom, concurvity."""

from ahofm.inference.uncertainty import band_of

__all__ = ["band_of"]

"""The model: its shape, its coefficients, and the frozen result of a fit."""

from ahofm.model.band import Band
from ahofm.model.checks import check_offset, check_weight
from ahofm.model.coordinates import Coordinates, coordinates, eigenvalues
from ahofm.model.error_quantiles import ErrorQuantiles
from ahofm.model.files import ModelFileError, load
from ahofm.model.layout import Layout
from ahofm.model.model import Model, Negligible
from ahofm.model.predictor import Lower, Predictor
from ahofm.model.trace import Choice, Edit, Gain, Reason, Record, Trace, Validated
from ahofm.model.variance_model import VarianceModel

__all__ = [
    "Band",
    "Choice",
    "Coordinates",
    "Edit",
    "ErrorQuantiles",
    "Gain",
    "Layout",
    "Lower",
    "Model",
    "ModelFileError",
    "Negligible",
    "Predictor",
    "Reason",
    "Record",
    "Trace",
    "Validated",
    "VarianceModel",
    "check_offset",
    "check_weight",
    "coordinates",
    "eigenvalues",
    "load",
]

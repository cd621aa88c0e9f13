"""The model: its shape, its coefficients, and the frozen result of a fit."""

from ahofm.model.coordinates import Coordinates, coordinates, eigenvalues
from ahofm.model.files import ModelFileError, load
from ahofm.model.layout import Layout
from ahofm.model.model import Model, Terms, check_offset, check_weight
from ahofm.model.trace import Reason, Record, Trace

__all__ = [
    "Coordinates",
    "Layout",
    "Model",
    "ModelFileError",
    "Reason",
    "Record",
    "Terms",
    "Trace",
    "check_offset",
    "check_weight",
    "coordinates",
    "eigenvalues",
    "load",
]

"""Columns: from raw values to codes, and what each code's functions and penalties are."""

from ahofm.columns.basis import Basis, Penalty
from ahofm.columns.categorical import Categorical
from ahofm.columns.codebook import Codebook, known_codes
from ahofm.columns.codes import Codes
from ahofm.columns.cyclic import Cyclic
from ahofm.columns.dates import Date
from ahofm.columns.encode import ConstantColumnWarning, Encoder
from ahofm.columns.kind import ColumnKind, Support
from ahofm.columns.learned import Learned
from ahofm.columns.linear import Linear
from ahofm.columns.piecewise import Pieces
from ahofm.columns.random_walk import RandomWalk
from ahofm.columns.spline import Spline
from ahofm.columns.spline_iid import SplineIID
from ahofm.columns.support import MAX_CODES

__all__ = [
    "MAX_CODES",
    "Basis",
    "Categorical",
    "Codebook",
    "Codes",
    "ColumnKind",
    "ConstantColumnWarning",
    "Cyclic",
    "Date",
    "Encoder",
    "Learned",
    "Linear",
    "Penalty",
    "Pieces",
    "RandomWalk",
    "Spline",
    "SplineIID",
    "Support",
    "known_codes",
]

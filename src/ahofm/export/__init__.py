"""A fitted model elsewhere: ONNX, SQL, scorers without dependencies, rating tables. All from one description of it."""

from ahofm.export.onnx import register_skl2onnx, to_onnx
from ahofm.export.programs import to_c, to_javascript, to_python
from ahofm.export.rating import RatingTable, RatingTables, rating_tables
from ahofm.export.sql import to_sql

__all__ = [
    "RatingTable",
    "RatingTables",
    "rating_tables",
    "register_skl2onnx",
    "to_c",
    "to_javascript",
    "to_onnx",
    "to_python",
    "to_sql",
]

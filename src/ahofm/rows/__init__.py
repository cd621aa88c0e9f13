"""Rows: where chunks come from, who schedules them, and how their sums are folded."""

from ahofm.rows.dataset import KNOWN_ROWS, Dataset, Known, Target, known_rows
from ahofm.rows.executor import Executor, SerialExecutor, ThreadExecutor
from ahofm.rows.fold import Folding, fold
from ahofm.rows.source import ArraySource, MappedSource, Source, default_chunk_rows, selected

__all__ = [
    "KNOWN_ROWS",
    "ArraySource",
    "Dataset",
    "Executor",
    "Folding",
    "Known",
    "MappedSource",
    "SerialExecutor",
    "Source",
    "Target",
    "ThreadExecutor",
    "default_chunk_rows",
    "fold",
    "known_rows",
    "selected",
]

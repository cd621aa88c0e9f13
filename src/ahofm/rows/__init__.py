"""Rows: sources of chunks, executors that schedule them, and folds of their sums."""

from ahofm.rows.dataset import RAW_SAMPLE_ROWS, Dataset, RawSample, Target, raw_sample_rows
from ahofm.rows.executor import Executor, SerialExecutor, ThreadExecutor
from ahofm.rows.fold import Folding, fold
from ahofm.rows.source import ArraySource, MappedSource, Source, default_chunk_rows, selected

__all__ = [
    "RAW_SAMPLE_ROWS",
    "ArraySource",
    "Dataset",
    "Executor",
    "Folding",
    "MappedSource",
    "RawSample",
    "SerialExecutor",
    "Source",
    "Target",
    "ThreadExecutor",
    "default_chunk_rows",
    "fold",
    "raw_sample_rows",
    "selected",
]

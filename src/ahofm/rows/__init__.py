"""Rows: where chunks come from, who schedules them, and how their sums are folded."""

from ahofm.rows.executor import Executor, SerialExecutor, ThreadExecutor
from ahofm.rows.fold import fold
from ahofm.rows.source import ArraySource, Source

__all__ = ["ArraySource", "Executor", "SerialExecutor", "Source", "ThreadExecutor", "fold"]

"""Kernels: what is computed on one chunk of rows, by whom."""

from ahofm.kernels.curves import CurveKernel, Curves, LevelCurves, NumberCurves, ReferenceCurves, column_curves
from ahofm.kernels.losses import LOSSES, log_of_sum
from ahofm.kernels.native import INSTRUCTION_SETS, NativeKernel
from ahofm.kernels.native_curves import NativeCurves
from ahofm.kernels.native_row_states import MAX_STATE_ORDER, NativeRowStateKernel, chain, code_sums, inverses
from ahofm.kernels.protocol import Chunk, ColumnSums, Kernel, Sums, Tables
from ahofm.kernels.reference import ReferenceKernel
from ahofm.kernels.row_states import BlockSums, ColumnMoments, ReferenceRowStateKernel, RowState, RowStateKernel

__all__ = [
    "INSTRUCTION_SETS",
    "LOSSES",
    "MAX_STATE_ORDER",
    "BlockSums",
    "Chunk",
    "ColumnMoments",
    "ColumnSums",
    "CurveKernel",
    "Curves",
    "Kernel",
    "LevelCurves",
    "NativeCurves",
    "NativeKernel",
    "NativeRowStateKernel",
    "NumberCurves",
    "ReferenceCurves",
    "ReferenceKernel",
    "ReferenceRowStateKernel",
    "RowState",
    "RowStateKernel",
    "Sums",
    "Tables",
    "chain",
    "code_sums",
    "column_curves",
    "inverses",
    "log_of_sum",
]

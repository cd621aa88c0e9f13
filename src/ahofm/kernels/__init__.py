"""Kernels: what is computed on one chunk of rows, by whom."""

from ahofm.kernels.block import BlockKernel, BlockSums, ColumnMoments, ReferenceBlockKernel, RowState
from ahofm.kernels.curves import CurveKernel, Curves, LevelCurves, NumberCurves, ReferenceCurves, column_curves
from ahofm.kernels.losses import LOSSES, log_of_sum
from ahofm.kernels.native import INSTRUCTION_SETS, NativeKernel
from ahofm.kernels.native_block import MAX_BLOCK_ORDER, NativeBlockKernel, chain, code_sums, inverses
from ahofm.kernels.native_curves import NativeCurves
from ahofm.kernels.protocol import Chunk, ColumnSums, Kernel, Sums, Tables
from ahofm.kernels.reference import ReferenceKernel

__all__ = [
    "INSTRUCTION_SETS",
    "LOSSES",
    "MAX_BLOCK_ORDER",
    "BlockKernel",
    "BlockSums",
    "Chunk",
    "ColumnMoments",
    "ColumnSums",
    "CurveKernel",
    "Curves",
    "Kernel",
    "LevelCurves",
    "NativeBlockKernel",
    "NativeCurves",
    "NativeKernel",
    "NumberCurves",
    "ReferenceBlockKernel",
    "ReferenceCurves",
    "ReferenceKernel",
    "RowState",
    "Sums",
    "Tables",
    "chain",
    "code_sums",
    "column_curves",
    "inverses",
    "log_of_sum",
]

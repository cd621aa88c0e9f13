"""Kernels: what is computed on one chunk of rows, by whom."""

from ahofm.kernels.curves import CurveKernel, Curves, LevelCurves, NumberCurves, ReferenceCurves, column_curves
from ahofm.kernels.losses import LOSSES
from ahofm.kernels.native import INSTRUCTION_SETS, NativeKernel
from ahofm.kernels.native_curves import NativeCurves
from ahofm.kernels.protocol import Chunk, ColumnSums, Kernel, Sums, Tables
from ahofm.kernels.reference import ReferenceKernel

__all__ = [
    "INSTRUCTION_SETS",
    "LOSSES",
    "Chunk",
    "ColumnSums",
    "CurveKernel",
    "Curves",
    "Kernel",
    "LevelCurves",
    "NativeCurves",
    "NativeKernel",
    "NumberCurves",
    "ReferenceCurves",
    "ReferenceKernel",
    "Sums",
    "Tables",
    "column_curves",
]

"""Kernels: what is computed on one chunk of rows, by whom."""

from ahofm.kernels.losses import LOSSES
from ahofm.kernels.native import INSTRUCTION_SETS, NativeKernel
from ahofm.kernels.protocol import Chunk, ColumnSums, Kernel, Sums, Tables
from ahofm.kernels.reference import ReferenceKernel

__all__ = [
    "INSTRUCTION_SETS",
    "LOSSES",
    "Chunk",
    "ColumnSums",
    "Kernel",
    "NativeKernel",
    "ReferenceKernel",
    "Sums",
    "Tables",
]

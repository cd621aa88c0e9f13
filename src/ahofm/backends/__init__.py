"""Backends compute on rows. Solvers use these protocols only; kernels are made nowhere else."""

from ahofm.backends.base import (
    Backend,
    FailedError,
    Loss,
    Precision,
    Prediction,
    Rows,
    StoppedError,
    SweepArrays,
    Sweeper,
    SweepingBackend,
    SweepingRows,
    SweptPredictor,
    WorkingRows,
    loss_of,
    never,
)
from ahofm.backends.cpu import CpuBackend
from ahofm.backends.design import CELL_BYTES, DesignRows, MainSums
from ahofm.backends.device import DEVICES, Device, backend_of
from ahofm.backends.reference import ReferenceBackend
from ahofm.backends.response import LossDerivatives, Response, Trial, WorkingResponse

__all__ = [
    "CELL_BYTES",
    "DEVICES",
    "Backend",
    "CpuBackend",
    "DesignRows",
    "Device",
    "FailedError",
    "Loss",
    "LossDerivatives",
    "MainSums",
    "Precision",
    "Prediction",
    "ReferenceBackend",
    "Response",
    "Rows",
    "StoppedError",
    "SweepArrays",
    "Sweeper",
    "SweepingBackend",
    "SweepingRows",
    "SweptPredictor",
    "Trial",
    "WorkingResponse",
    "WorkingRows",
    "backend_of",
    "loss_of",
    "never",
]

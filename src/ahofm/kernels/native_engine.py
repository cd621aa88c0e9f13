"""Compiled sweeps, of the variational solver and of shared curves; these give them arrays and take them back."""

from __future__ import annotations

from ahofm._native import Engine as NativeEngine
from ahofm._native import SharedCurves as NativeSharedCurves
from ahofm._native import ThreadBudget

__all__ = ["NativeEngine", "NativeSharedCurves", "ThreadBudget"]

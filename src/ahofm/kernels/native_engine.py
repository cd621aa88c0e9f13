"""The compiled engine of the variational solver's sweeps; the solver gives it arrays and takes them back."""

from __future__ import annotations

from ahofm._native import Engine as NativeEngine
from ahofm._native import ThreadBudget

__all__ = ["NativeEngine", "ThreadBudget"]

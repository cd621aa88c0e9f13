"""Compiled sweeps, of the variational solver and of shared curves, and the threads that jobs side by side share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ahofm._native import Engine as NativeEngine
from ahofm._native import SharedCurves as NativeSharedCurves
from ahofm._native import ThreadBudget
from ahofm._native import design_sums as native_design_sums
from ahofm._native import design_times as native_design_times
from ahofm._native import weighted_grams as native_weighted_grams
from ahofm.kernels.native import INSTRUCTION_SETS, contiguous

__all__ = [
    "LOCAL",
    "NativeEngine",
    "NativeSharedCurves",
    "ThreadBudget",
    "design_gram",
    "design_sums",
    "design_times",
    "job_of",
    "shared_budget",
    "weighted_grams",
]

LOCAL = 4
"""Functions of a block of a design: those of a cubic spline that are not zero at a value."""

_BUDGET: ContextVar[ThreadBudget | None] = ContextVar("ahofm_budget", default=None)


@contextmanager
def job_of(budget: ThreadBudget) -> Iterator[None]:
    """What is called inside is a job that takes one thread of the budget; parallel regions may use those left."""
    token = _BUDGET.set(budget)
    budget.begin_job()
    try:
        yield
    finally:
        budget.occupy(-1)  # regions of other jobs have it from now on
        _BUDGET.reset(token)


def shared_budget() -> ThreadBudget | None:
    """The budget of the job that one is in: threads that its parallel regions may use; None: no other threads."""
    return _BUDGET.get()


def weighted_grams(design: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Gram matrices ``D' diag(w_s) D`` (count, m, m) of a design (n, m) at weights (count, n), of any sign."""
    out = np.empty((len(weights), design.shape[1], design.shape[1]))
    native_weighted_grams(INSTRUCTION_SETS[-1], contiguous(design), contiguous(weights), out, shared_budget())
    return out


def design_times(design: Mapping[str, Any], coef: NDArray[np.float64]) -> NDArray[np.float64]:
    """``D coef`` (n,) of a design (n, m), given by its arrays (``DesignRows``)."""
    out = np.empty(len(design["entries"]))
    native_design_times(INSTRUCTION_SETS[-1], dict(design), contiguous(coef), out)
    return out


def design_sums(design: Mapping[str, Any], values: NDArray[np.float64]) -> NDArray[np.float64]:
    """``D' values`` (m,) of values (n,) at the rows."""
    out = np.empty(len(design["centre"]))
    budget = shared_budget()
    native_design_sums(INSTRUCTION_SETS[-1], dict(design), contiguous(values), None, out, None, budget)
    return out


def design_gram(design: Mapping[str, Any], weight: NDArray[np.float64]) -> NDArray[np.float64]:
    """``D' diag(weight) D`` (m, m) at weights (n,) of any sign."""
    out = np.empty((len(design["centre"]), len(design["centre"])))
    budget = shared_budget()
    native_design_sums(INSTRUCTION_SETS[-1], dict(design), None, contiguous(weight), None, out, budget)
    return out

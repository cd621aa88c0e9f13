"""The compiled backend: kernels in C++, and whole sweeps of variational fits without the interpreter.

The engine (src/native/engine.cpp) does what ``fit.solvers.variational.coordinate_ascent`` does on working rows, without
Python's lock: contract tests compare the two. It works on copies of the row vectors, made when a sweeper is,
so that rows that were copied before stay what they were.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from ahofm.backends.base import FailedError, Precision, StoppedError, SweepArrays, SweptPredictor, never
from ahofm.backends.design import DesignRows
from ahofm.backends.response import LossDerivatives, Response
from ahofm.backends.rows import KernelRows
from ahofm.backends.working_rows import KernelWorkingRows, with_learned_family
from ahofm.families import Bernoulli, Family, Gamma, Multinomial, NegativeBinomial, Poisson, Tweedie
from ahofm.kernels import Curves, NativeCurves, NativeKernel, NativeRowStateKernel
from ahofm.kernels.native import INSTRUCTION_SETS, contiguous
from ahofm.kernels.native_engine import NativeEngine
from ahofm.rows import Executor, Source

PRIORS = ("spline", "random_walk", "iid", "spline_iid")
"""In the order of the engine's own."""

_FAMILIES: Sequence[tuple[type[Family], str | None]] = (
    (Bernoulli, None),
    (Poisson, None),
    (Gamma, None),
    (NegativeBinomial, "size"),
    (Tweedie, "power"),
    (Multinomial, None),
)
"""In the order of the engine's own, with the parameter that their losses have."""


@dataclass(frozen=True)
class CpuBackend:
    """C++ on the cores of this machine, with the widest instructions that it has.

    Parameters
    ----------
    compiled_sweeps : bool
        Whether sweeps of variational fits are compiled as well, where the engine has the priors and the loss.
    """

    compiled_sweeps: bool = True

    def load(self, source: Source, executor: Executor, precision: Precision = "float64") -> CpuRows:
        """Rows to compute on."""
        return CpuRows(source, executor, NativeKernel(precision), NativeRowStateKernel(precision))

    def curves(self, linear_predictors: Sequence[Curves]) -> NativeCurves:
        """Linear predictors at true values."""
        return NativeCurves(tuple(linear_predictors))

    def sweeps(self, response: Response, priors: Sequence[str | None]) -> bool:
        """Whether the engine has solves for all priors, and losses do not depend on variances."""
        all_compiled = len(priors) > 0 and all(prior in PRIORS for prior in priors)
        return self.compiled_sweeps and all_compiled and not response.uses_variance


@dataclass(frozen=True)
class CpuRows(KernelRows):
    """Coded rows on compiled kernels."""

    def working(self, response: Response, design: DesignRows) -> CpuWorkingRows:
        """Rows of a variational fit."""
        return CpuWorkingRows(self.source, self.executor, self.block_kernel, response, design)


class CpuWorkingRows(KernelWorkingRows):
    """Working rows that the engine can take over."""

    def sweeper(self, arrays: SweepArrays, stop: Callable[[], bool] = never) -> CpuSweeper:
        """Sweeps in compiled code; row vectors are the engine's from now on."""
        derivatives = (getattr(self.derivatives, item.name) for item in fields(LossDerivatives))
        self.derivatives = LossDerivatives(*(np.array(values, order="C") for values in derivatives))
        self.variance = np.zeros_like(self.derivatives.eta)
        count = len(self._main)
        self._states, self._fits = [None] * count, [None] * count
        native = self._engine(arrays)
        native.set_stop(stop)
        return CpuSweeper(self, native, arrays)

    def _engine(self, arrays: SweepArrays) -> Any:
        response, derivatives = self.response, self.derivatives
        rows = {
            "y": contiguous(response.target if response.quadratic else response.y),
            "weight": contiguous(response.weight),
            "offset": None if response.quadratic or response.offset is None else contiguous(response.offset),
            "eta": derivatives.eta,
            "value": derivatives.value,
            "slope": derivatives.slope,
            "curvature": derivatives.curvature,
            "variance": self.variance,
        }
        chunks = [self._source.chunk(index).codes.columns for index in range(self._source.n_chunks)]
        codes = chunks[0] if len(chunks) == 1 else list(map(np.concatenate, zip(*chunks, strict=True)))
        native = NativeEngine(
            INSTRUCTION_SETS[-1],
            self._kernel == NativeRowStateKernel("float64"),
            rows,
            [_column(column, column_codes) for column, column_codes in zip(arrays.columns, codes, strict=True)],
            list(arrays.ranks.items()),
            dict(arrays.additive),
            list(arrays.linear_predictors),
            _loss(response),
            _majorant(response),
        )
        native.majorises = response.family.curvature == "majorant"
        native.use_majorant = self.use_majorant
        native.threads = getattr(self._executor, "n_threads", 1) or 1
        native.set_budget(getattr(self._executor, "budget", None))
        return native


class CpuSweeper:
    """Row states and posterior arrays of all linear predictors, inside the engine."""

    def __init__(self, rows: CpuWorkingRows, native: Any, arrays: SweepArrays) -> None:
        """With the arrays that the engine changes in place."""
        self._rows, self._native, self._arrays = rows, native, arrays

    def build(self, tempering: float) -> None:
        """States of all rows from scratch."""
        self._call(self._native.build, tempering)

    def sweep(
        self, dispersion: float, *, update_lam: bool, update_main_lam: bool, backwards: bool, floor: float
    ) -> tuple[float, int]:
        """All columns once, main effects jointly, smoothing parameters of pairs."""
        native = self._native
        native.dispersion = dispersion
        self._call(native.sweep, update_lam, update_main_lam, backwards, floor)
        self._rows.use_majorant, damped = native.use_majorant, native.damped
        native.damped = 0
        return float(native.dispersion), int(damped)

    def learn_parameters(self) -> None:
        """The family's own parameters."""
        rows = self._rows
        rows.response = with_learned_family(rows.response, rows.derivatives.eta)
        self._native.set_loss(_loss(rows.response))
        self._call(self._native.evaluate)

    def largest(self) -> float:
        """The largest value of any function."""
        return float(self._native.largest())

    def found(self, k: int) -> SweptPredictor:
        """Linear predictor k as it is."""
        return SweptPredictor(*self._native.linear_predictor(k))

    @staticmethod
    def _call(task: Callable[..., bool | None], *arguments: object) -> None:
        try:
            complete = task(*arguments)
        except ArithmeticError as error:
            raise FailedError(str(error)) from None
        if complete is False:
            raise StoppedError


def _column(column: Mapping[str, Any], codes: Any) -> dict[str, Any]:
    return {
        **column,
        "codes": contiguous(codes),
        "main": engine_prior(column["main"]),
        "factors": engine_prior(column["factors"]),
    }


def engine_prior(prior: Mapping[str, Any]) -> dict[str, Any]:
    """Arrays of a prior as the engine reads them: kinds are numbers."""
    return {**prior, "kind": PRIORS.index(prior["kind"])}


def _loss(response: Response) -> Any:
    """None for quadratic losses, (number, parameter) of a built-in family, a function of eta (n, K) otherwise."""
    family = response.family
    if response.quadratic:
        return None
    for number, (builtin, parameter) in enumerate(_FAMILIES):
        if type(family).loss is builtin.loss and getattr(family, "link", "log") == "log":
            return number, 0.0 if parameter is None else float(getattr(family, parameter))
    return lambda eta: family.loss(response.y, response.shifted(eta))


def _majorant(response: Response) -> Any:
    family = response.family
    if response.quadratic or type(family).majorant is Family.majorant:
        return None
    return lambda eta, variance: family.majorant(response.shifted(eta), variance)

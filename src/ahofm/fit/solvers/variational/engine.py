"""Sweeps in compiled code: the arrays of a state as the native engine reads them, and the way back.

The engine (src/native/engine.cpp) does what ``State`` does in NumPy, without the interpreter: the contract tests hold
the two together. It works on copies of the posterior's arrays, made when it is, so that earlier states stay what they
were.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, TypeAlias

import numpy as np

from ahofm.columns import Codes
from ahofm.columns.basis import Floats
from ahofm.families import Bernoulli, Family, Gamma, Multinomial, NegativeBinomial, Poisson, Tweedie
from ahofm.fit.cost.deadline import StoppedError
from ahofm.fit.solvers.variational.main_effects import AdditiveDesign, MainEffects
from ahofm.fit.solvers.variational.posterior import ColumnPosterior, FailedError, Posterior
from ahofm.fit.solvers.variational.working import LossDerivatives, Response
from ahofm.kernels.native import INSTRUCTION_SETS, contiguous
from ahofm.kernels.native_engine import NativeEngine
from ahofm.priors.base import FunctionPosterior, Prior
from ahofm.priors.column import ColumnPriors
from ahofm.priors.iid import IIDPrior, SplineIIDPrior, free_levels
from ahofm.priors.random_walk import RandomWalkPrior
from ahofm.priors.spline import SplinePrior

_PRIORS: Sequence[type] = (SplinePrior, RandomWalkPrior, IIDPrior, SplineIIDPrior)

_FAMILIES: Sequence[tuple[type[Family], str | None]] = (
    (Bernoulli, None),
    (Poisson, None),
    (Gamma, None),
    (NegativeBinomial, "size"),
    (Tweedie, "power"),
    (Multinomial, None),
)
"""In the order of the engine's own, with the parameter that their losses have."""

Arrays: TypeAlias = Mapping[str, Any]


def has_engine(response: Response, columns: Sequence[ColumnPriors]) -> bool:
    """Whether the engine knows all priors, and losses do not depend on variances."""
    known = all(type(prior) in _PRIORS for column in columns for prior in (column.main, column.factors))
    return known and len(columns) > 0 and not response.uses_variance


@dataclass
class Engine:
    """Row states and posterior arrays of all linear predictors, inside the native engine.

    Attributes
    ----------
    native : NativeEngine
    derivatives : LossDerivatives
        Losses and derivatives, which sweeps change in place.
    variance : array of shape (n, K)
        Likewise.
    """

    native: Any
    derivatives: LossDerivatives
    variance: Floats
    _etas: Sequence[Arrays]

    @classmethod
    def of(
        cls,
        codes: Codes,
        precision: str,
        response: Response,
        additive: AdditiveDesign,
        posteriors: Sequence[Posterior],
        derivatives: LossDerivatives,
    ) -> Engine:
        """With copies of all that changes."""
        blocks, given = posteriors[0].blocks, (getattr(derivatives, part.name) for part in fields(LossDerivatives))
        derivatives = LossDerivatives(*(np.array(part, order="C") for part in given))
        variance = np.zeros_like(derivatives.eta)
        offset = None if response.quadratic or response.offset is None else contiguous(response.offset)
        rows = {
            "y": contiguous(response.target if response.quadratic else response.y),
            "weight": contiguous(response.weight),
            "offset": offset,
            "eta": derivatives.eta,
            "value": derivatives.value,
            "slope": derivatives.slope,
            "curvature": derivatives.curvature,
            "variance": variance,
        }
        columns = [_column(block, code) for block, code in zip(blocks, codes.columns, strict=True)]
        etas = [_arrays(posterior) for posterior in posteriors]
        native = NativeEngine(
            INSTRUCTION_SETS[-1],
            precision == "float64",
            rows,
            columns,
            list(posteriors[0].ranks.items()),
            additive.spec,
            etas,
            _loss(response),
            _majorant(response),
        )
        native.majorises = response.family.curvature == "majorant"
        return cls(native, derivatives, variance, etas)

    def set_response(self, response: Response) -> None:
        """The same rows with other parameters of the family."""
        self.native.set_loss(_loss(response))
        self._call(self.native.evaluate)

    def build(self, tempering: float) -> None:
        """States of all rows from scratch, with a tempering of the variances."""
        self._call(self.native.build, tempering)

    def sweep(self, noise: float, *, learn: bool, learn_mains: bool, backwards: bool, floor: float) -> float:
        """All columns once, main effects jointly, smoothing parameters of pairs; the dispersion after it."""
        self.native.noise = noise
        self._call(self.native.sweep, learn, learn_mains, backwards, floor)
        return float(self.native.noise)

    def posteriors(self, posteriors: Sequence[Posterior]) -> list[Posterior]:
        """With what the engine has found in the place of what it began with."""
        found = []
        for k, (posterior, arrays) in enumerate(zip(posteriors, self._etas, strict=True)):
            intercept, trace, edf, age, solved = self.native.linear_predictor(k)
            parts = zip(posterior.blocks, arrays["columns"], solved, strict=True)
            blocks = tuple(_block(block, own, width) for block, own, width in parts)
            surfaces = posterior.surfaces
            if surfaces is not None:
                surfaces = replace(surfaces, along=arrays["along"], plain=arrays["plain"], edf=edf, age=age)
            smooth = MainEffects(arrays["coef"], arrays["lam"], trace)
            found.append(replace(posterior, intercept=intercept, smooth=smooth, blocks=blocks, surfaces=surfaces))
        return found

    @staticmethod
    def _call(task: Callable[..., bool | None], *given: object) -> None:
        try:
            complete = task(*given)
        except ArithmeticError as error:
            raise FailedError(str(error)) from None
        if complete is False:
            raise StoppedError


def _loss(response: Response) -> Any:
    """None for parabolas, (number, parameter) of a family that is built in, a function of eta (n, K) otherwise."""
    family = response.family
    if response.quadratic:
        return None
    for number, (known, parameter) in enumerate(_FAMILIES):
        if type(family).loss is known.loss and getattr(family, "link", "log") == "log":
            return number, 0.0 if parameter is None else float(getattr(family, parameter))
    return lambda eta: family.loss(response.y, response.shifted(eta))


def _majorant(response: Response) -> Any:
    family = response.family
    if response.quadratic or type(family).majorant is Family.majorant:
        return None
    return lambda eta, variance: family.majorant(response.shifted(eta), variance)


def _column(block: ColumnPosterior, codes: Any) -> Arrays:
    column = block.column
    return {
        "codes": contiguous(codes),
        "n_codes": column.book.n_codes,
        "mass": column.mass,
        "farthest": block.farthest,
        "bounded": column.free,
        "main": _prior(column.main),
        "factors": _prior(column.factors),
    }


def _prior(prior: Prior) -> Arrays:
    low, high = prior.bounds
    spec: dict[str, Any] = {"kind": _PRIORS.index(type(prior)), "low": low, "high": high}
    spec["mass"] = getattr(prior, "mass", None)
    smooth = prior.smooth if isinstance(prior, SplineIIDPrior) else prior
    if isinstance(smooth, SplinePrior):
        spec |= {"values": contiguous(smooth.values), "group": smooth.group.astype(np.float64)}
        spec |= {"weight": smooth.weight, "rough": smooth.rough}
        places, entries, transform = smooth.local or (None, None, None)
        spec["places"] = None if places is None else places.ravel().astype(np.float64)
        spec |= {"entries": entries, "transform": transform}
    if isinstance(prior, RandomWalkPrior):
        spec |= {"edges": prior.edges, "roughness": prior.roughness}
    if isinstance(prior, (IIDPrior, SplineIIDPrior)):
        spec |= {"repeated": prior.repeated.astype(np.float64), "free_levels": free_levels(prior.mass, prior.repeated)}
    return spec


def _arrays(posterior: Posterior) -> Arrays:
    surfaces = posterior.surfaces
    return {
        "columns": [_of_block(block) for block in posterior.blocks],
        "coef": posterior.smooth.coef.copy(),
        "lam": posterior.smooth.lam.copy(),
        "intercept": posterior.intercept,
        "trace": posterior.smooth.trace,
        "along": None if surfaces is None else surfaces.along.copy(),
        "plain": None if surfaces is None else surfaces.plain.copy(),
        "edf": 0.0 if surfaces is None else surfaces.edf,
        "age": 0 if surfaces is None else surfaces.age,
    }


def _of_block(block: ColumnPosterior) -> Arrays:
    codes, width = len(block.mean) - 1, block.mean.shape[1] - 1
    known = 0 if block.factors is None else block.factors.mean.shape[1]
    smooth, rough = _coordinates(block.column.factors), block.column.factors
    arrays: dict[str, Any] = {
        "mean": np.array(block.mean, order="C"),
        "variance": np.array(block.variance, order="C"),
        "main_lam": block.main_lam[:, 0].copy(),
        "lam": np.array(block.lam, order="C"),
        "main_smooth": np.zeros(_coordinates(block.column.main)),
        "main_rough": np.zeros(codes),
        "smooth": np.zeros((smooth, width)),
        "rough": np.zeros((codes, width)),
        "edf": np.zeros((rough.n_groups, width)),
        "solved": 0 if block.main is None else 1 + known,
    }
    if block.main is not None:
        _fill(arrays["main_smooth"], block.main.smooth, 0)
        _fill(arrays["main_rough"], block.main.rough, 0)
    if block.factors is not None:
        _fill(arrays["smooth"], block.factors.smooth, slice(0, known))
        _fill(arrays["rough"], block.factors.rough, slice(0, known))
        arrays["edf"][:, :known] = block.factors.edf
    return arrays


def _fill(to: Floats, values: Floats | None, columns: int | slice) -> None:
    if values is None:
        return
    if isinstance(columns, int):
        to[:] = values[:, columns]
    else:
        to[:, columns] = values


def _coordinates(prior: Prior) -> int:
    smooth = prior.smooth if isinstance(prior, SplineIIDPrior) else prior
    return smooth.values.shape[1] if isinstance(smooth, SplinePrior) else 0


def _block(block: ColumnPosterior, arrays: Arrays, solved: int) -> ColumnPosterior:
    """The block with the engine's arrays; functions that have not been solved have no posterior."""
    mean, variance, column = arrays["mean"], arrays["variance"], block.column
    main = factors = None
    if solved > 0:
        zero = np.zeros((column.main.n_groups, 1))
        rough = None if isinstance(column.main, SplinePrior) else arrays["main_rough"][:, np.newaxis]
        smooth = arrays["main_smooth"][:, np.newaxis] if _coordinates(column.main) else None
        main = FunctionPosterior(mean[:-1, :1], variance[:-1, :1], smooth, rough, zero, zero)
    if solved > 1:
        rough = (
            None if isinstance(column.factors, SplinePrior) and not column.free else arrays["rough"][:, : solved - 1]
        )
        smooth = arrays["smooth"][:, : solved - 1] if _coordinates(column.factors) else None
        edf = arrays["edf"][:, : solved - 1]
        factors = FunctionPosterior(
            mean[:-1, 1:solved], variance[:-1, 1:solved], smooth, rough, edf, np.zeros_like(edf)
        )
    return replace(
        block,
        mean=mean,
        variance=variance,
        main_lam=arrays["main_lam"][:, np.newaxis],
        lam=arrays["lam"],
        main=main,
        factors=factors,
    )

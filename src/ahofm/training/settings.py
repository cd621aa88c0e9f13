"""How to fit: every choice a user can make, whether it makes sense, and what orders and ranks columns can carry."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ahofm.backends import Device, backend_of
from ahofm.columns.encode import Kinds
from ahofm.priors.df import Df, DfKind
from ahofm.training.runner import Callback
from ahofm.tuning import RANKS
from ahofm.tuning.penalised import PENALISED_RANK

PENALISED = ("lbfgs", "bcd", "adam")
"""Solvers that minimise a penalised objective with given smoothing parameters."""

ESTIMATING = ("variational", "subsample", "shared")
"""Solvers that learn the smoothing parameters."""

RETIRED = {
    "factor_prior": {"smooth": "spline", "walk": "random_walk", "mixed": "spline_iid"},
    "solver": {"block": "variational", "newton": "subsample"},
}
"""Earlier names of values, by argument, and what they are called now."""

SOLVERS = ("auto", *ESTIMATING, *PENALISED)

FACTOR_PRIORS = ("auto", "spline", "random_walk", "spline_iid")

EFFORTS = ("fast", "balanced", "best")


@dataclass(frozen=True)
class Settings:
    """How to fit. Documented at ``ahofm.AHOFMRegressor``."""

    order: int | str | None = None
    rank: Any = "auto"
    columns: Kinds = None
    smoothing: str = "auto"
    df: Df = None
    df_kind: DfKind = "residual"
    ridge: float = 0.01
    solver: Any = "auto"
    factor_prior: Any = "auto"
    interaction_cst: Any = None
    exclude: Any = None
    monotonic_cst: Any = None
    effort: str = "balanced"
    time_budget: float | None = None
    tempering: float | str = "auto"
    n_members: int | str = "auto"
    prune: bool = False
    center: bool = True
    max_codes: int | None = None
    validation_fraction: float | None = 0.1
    patience: int = 50
    max_iter: int | None = None
    tol: float | None = None
    n_threads: int | None = None
    device: Device = "auto"
    seed: int = 0
    callbacks: Sequence[Callback] = ()
    checkpoint: Any = None


def check_settings(settings: Settings) -> None:
    """Raise ValueError for a setting that makes no sense whatever the data."""
    if isinstance(settings.solver, str):
        _check_choice("solver", settings.solver, SOLVERS)
    elif not all(hasattr(settings.solver, part) for part in ("name", "init", "step")):
        raise TypeError(f"solver must be a name or have `init` and `step`, got {settings.solver!r}")
    backend_of(settings.device)
    _check_choice("smoothing", settings.smoothing, ("auto", "df"))
    _check_choice("df_kind", settings.df_kind, ("residual", "hat"))
    _check_factor_prior(settings.factor_prior)
    _check_choice("effort", settings.effort, EFFORTS)
    if settings.solver in ESTIMATING and settings.smoothing == "df":
        name = settings.solver
        raise ValueError(
            f"solver={name!r} learns its smoothing parameters: use smoothing='auto', or another solver with 'df'"
        )
    _check_rows_and_sweeps(settings)
    if settings.tempering != "auto" and not _is_fraction(settings.tempering):
        raise ValueError(f"tempering must be 'auto' or a number from 0 to 1, got {settings.tempering!r}")
    if not 0.0 <= settings.ridge < np.inf:
        raise ValueError(f"ridge must be a number of at least 0, got {settings.ridge!r}")
    if settings.checkpoint is not None and Path(settings.checkpoint).is_dir():
        raise ValueError(
            f"checkpoint must be a file, got the directory {str(settings.checkpoint)!r}; give a name in it"
        )


def _check_rows_and_sweeps(settings: Settings) -> None:
    """Check the limits of a fit: validation rows, iterations, seconds."""
    fraction = settings.validation_fraction
    if fraction is not None and not 0.0 <= fraction < 1.0:
        raise ValueError(f"validation_fraction must be in [0, 1), got {fraction!r}")
    _check_count("patience", settings.patience)
    if settings.max_iter is not None:
        _check_count("max_iter", settings.max_iter)
    if settings.n_members != "auto":
        _check_count("n_members", settings.n_members)
    if settings.tol is not None and not settings.tol > 0.0:
        raise ValueError(f"tol must be positive, got {settings.tol!r}")
    budget = settings.time_budget
    if budget is not None and not (_is_number(budget) and float(budget) > 0.0):
        raise ValueError(f"time_budget must be None or a positive number of seconds, got {budget!r}")


def _check_choice(name: str, value: Any, choices: Sequence[str]) -> None:
    if isinstance(value, str) and value in RETIRED.get(name, ()):
        raise ValueError(f"{name}={value!r} is now {RETIRED[name][value]!r}")
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, got {value!r}")


def _check_factor_prior(value: Any) -> None:
    """Check ``factor_prior``: a name, or a list of objects with the methods of ``ahofm.fit.Candidate``."""
    if isinstance(value, (list, tuple)) and value and all(hasattr(one, "priors") for one in value):
        return
    if not isinstance(value, str):
        raise TypeError(
            f"factor_prior must be one of {', '.join(map(repr, FACTOR_PRIORS))} or a list of ahofm.fit.Candidate, "
            f"got {value!r}"
        )
    _check_choice("factor_prior", value, FACTOR_PRIORS)


def _check_count(name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
        raise ValueError(f"{name} must be an integer of at least 1, got {value!r}")


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)


def _is_fraction(value: Any) -> bool:
    return _is_number(value) and 0.0 <= float(value) <= 1.0


class OrderWarning(UserWarning):
    """The order was reduced to the number of columns that vary."""


class TimeBudgetWarning(ConvergenceWarning):  # type: ignore[misc]  # scikit-learn has no types
    """``time_budget`` was over before all was done: the model is the best so far."""


def check_order(order: Any, n_columns: int, n_rows: int) -> int:
    """The order to fit: at most the number of columns that are not constant."""
    if isinstance(order, bool) or not isinstance(order, (int, np.integer)) or order < 1:
        raise ValueError(f"order must be 'auto' or an integer of at least 1, got {order!r}")
    if n_columns == 0:
        raise ValueError(f"every column of X is constant over its rows (n_samples={n_rows}); there is nothing to fit")
    if order > n_columns:
        warnings.warn(
            f"order={order} is more than the {n_columns} column(s) that vary; order {n_columns} is fitted",
            OrderWarning,
            stacklevel=2,
        )
    return int(min(order, n_columns))


def check_ranks(rank: Any, requested_order: int, order: int, n_rows: int | None) -> dict[int, int]:
    """Rank of every order from 2 to ``order``; an order that a dict leaves out has no factors.

    "auto": with ``n_rows`` it grows with the rows, where unsupported factors are pruned; otherwise ``PENALISED_RANK``.
    """
    if isinstance(rank, str) and rank == "auto":
        rank = PENALISED_RANK if n_rows is None else next(rank for most, rank in RANKS if n_rows < most)
    if not isinstance(rank, Mapping):
        return dict.fromkeys(range(2, order + 1), _check_rank(rank))
    for key, value in rank.items():
        if isinstance(key, bool) or not isinstance(key, (int, np.integer)) or not 2 <= key <= requested_order:
            raise ValueError(f"rank names order {key!r}; orders of factors go from 2 to order={requested_order}")
        _check_rank(value)
    return {int(key): int(rank[key]) for key in sorted(rank) if key <= order}


def _check_rank(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
        raise ValueError(
            f"rank must be 'auto' or an integer of at least 1, got {value!r}; without interactions the order is 1"
        )
    return int(value)

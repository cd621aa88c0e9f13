"""Random tables, ordinary and nasty, and what must hold of every fit to them.

An ordinary table is what analysts have: numbers, flags, years, levels, missing values, weights, offsets, any family.
Three accounts of its fit must agree: predictions of the model, the fit's own state at its last sweep, and the sums of
the explanations; and on the training rows the fit is no worse than a constant.

A nasty table has what breaks arithmetic: huge and tiny numbers, identifiers, constants but for one row, absurd weights.
It is fitted with finite predictions, or refused with an error that the library means: never another exception, never a
warning of NumPy's that says nothing to the user.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from ahofm import AHOFMRegressor, Categorical, Cyclic, Linear, RandomWalk, Spline, SplineIID
from ahofm.explain import contributions, shapley_values
from ahofm.fit.solvers.variational.staged_fit import StagedFit
from ahofm.fit.stacking.weights import predict
from benchmarks.attack.outcome import IDENTICAL, REJECTED, SILENT, UNDOCUMENTED, Counts
from benchmarks.attack.workers import Attempt, run_cases

LEAKED = ("invalid value", "divide by zero", "overflow", "underflow", "ill-conditioned", "Degrees of freedom")
"""In warnings that NumPy or SciPy give: they say nothing to a user."""

_KINDS = (Spline(), Spline(n_basis=5), SplineIID(), RandomWalk(), Linear(), Categorical(), None)

_TWO = np.array([[1.0, 0.0], [2.0, 1.0], [2020.0, 2019.0], [1e6 + 1.0, 1e6], [-5.0, 5.0]])

_FAMILIES = ("gaussian",) * 5 + ("bernoulli", "poisson", "gamma", "negative_binomial", "tweedie", "huber", "quantile")


@dataclass(frozen=True)
class Case:
    """A table, its target, and what is asked of the fit."""

    X: pd.DataFrame
    y: NDArray[np.float64]
    weight: NDArray[np.float64] | None
    offset: NDArray[np.float64] | None
    settings: dict[str, Any]


def ordinary(seed: int) -> Case:
    """A table that should be fitted well."""
    rng = np.random.default_rng([1, seed])
    n, p = int(rng.choice([40, 60, 90, 150])), int(rng.integers(1, 5))
    columns = [_ordinary_column(rng, n) for _ in range(p)]
    X = pd.DataFrame({f"c{j}": column for j, (column, _) in enumerate(columns)})
    signal = sum((rng.normal() * effect for _, effect in columns), np.zeros(n))
    signal = signal + (columns[0][1] * columns[-1][1] if rng.random() < 0.4 else 0.0)
    family = str(rng.choice(_FAMILIES))
    weight = [None, rng.integers(1, 4, n).astype(float), rng.uniform(0.2, 3.0, n)][int(rng.choice([0, 0, 1, 2]))]
    offset = rng.normal(scale=0.3, size=n) if rng.random() < 0.2 else None
    y = _target(rng, family, 0.7 * signal, offset)
    settings: dict[str, Any] = {"family": family, "random_state": 0, "n_jobs": 1}
    if rng.random() < 0.7:
        settings["order"] = int(rng.integers(1, 4))
    if rng.random() < 0.4:
        j = int(rng.integers(p))
        kind = _KINDS[int(rng.integers(len(_KINDS)))]
        if kind is not None and (pd.api.types.is_numeric_dtype(X.iloc[:, j]) or isinstance(kind, Categorical)):
            settings["columns"] = {f"c{j}": kind}
    if rng.random() < 0.1:
        settings |= {"solver": "lbfgs", "smoothing": "df"}
    return Case(X, y, weight, offset, settings)


def _ordinary_column(rng: np.random.Generator, n: int) -> tuple[Any, NDArray[np.float64]]:
    """Values, some of them perhaps missing, and an effect of theirs with spread of about one."""
    sort = rng.choice(["normal", "skewed", "counts", "two", "grid", "text", "rare", "year"])
    if sort in ("text", "rare"):
        k = int(rng.integers(2, 9))
        share = rng.dirichlet(np.full(k, 5.0 if sort == "text" else 0.4))
        at = rng.choice(k, n, p=share)
        values: NDArray[Any] = np.array([f"level {a}" for a in at], dtype=object)
        effect = rng.normal(size=k)[at]
    else:
        base = rng.normal(size=n)
        values = {
            "normal": base,
            "skewed": np.exp(2 * base),
            "counts": np.floor(np.abs(4 * base)),
            "two": np.where(base > 0, *rng.choice(_TWO)),
            "grid": np.round(2 * base) / 2,
            "year": 2000.0 + np.floor(8 * np.abs(base)),
        }[sort].astype(float)
        effect = np.sin(1.5 * base) if sort != "two" else np.where(base > 0, 1.0, -1.0)
    if rng.random() < 0.35:
        gone = rng.random(n) < rng.choice([0.03, 0.1, 0.4])
        values = values.copy()
        values[gone] = None if values.dtype == object else np.nan
        effect = np.where(gone, rng.normal(), effect)
    return values, effect


def _target(
    rng: np.random.Generator, family: str, signal: NDArray[np.float64], offset: NDArray[np.float64] | None
) -> NDArray[np.float64]:
    eta = np.clip(signal if offset is None else signal + offset, -4.0, 3.0)
    mu = np.exp(eta)
    if family == "bernoulli":
        y = (rng.random(len(eta)) < 1 / (1 + np.exp(-eta))).astype(float)
    elif family == "poisson":
        y = rng.poisson(mu).astype(float)
    elif family == "negative_binomial":
        y = rng.negative_binomial(2, 2 / (2 + mu)).astype(float)
    elif family == "gamma":
        y = rng.gamma(2.0, mu / 2)
    elif family == "tweedie":
        y = np.where(rng.random(len(eta)) < 0.3, 0.0, rng.gamma(2.0, mu / 2))
    else:
        scale, middle = rng.choice([1e-3, 1.0, 1e4]), rng.choice([0.0, 100.0])
        y = scale * (eta + rng.choice([0.1, 1.0]) * rng.normal(size=len(eta)) + middle)
        return np.asarray(y)
    if family in ("bernoulli", "poisson", "negative_binomial", "tweedie"):  # all alike is refused, rightly
        y[:2] = [0.0, 1.0]
    return y


def nasty(seed: int) -> Case:
    """A table that may be refused, clearly."""
    rng = np.random.default_rng([2, seed])
    n, p = int(rng.choice([3, 8, 30, 80])), int(rng.integers(1, 5))
    X = pd.DataFrame({f"c{j}": _nasty_column(rng, n) for j in range(p)})
    family = str(rng.choice(_FAMILIES))
    y = _nasty_target(rng, n, family)
    weight = None
    if rng.random() < 0.4:
        weight = rng.choice([1e-300, 1e-12, 1.0, 1e12, 1e250], n) if rng.random() < 0.5 else np.full(n, 1e250)
        weight = np.where(rng.random(n) < 0.2, 0.0, weight)
    offset = rng.choice([-1e6, 0.0, 700.0, 1e12], n) if rng.random() < 0.15 else None
    settings: dict[str, Any] = {"family": family, "random_state": 0, "n_jobs": 1, "order": int(rng.integers(1, 4))}
    if rng.random() < 0.3:
        kind = _KINDS[int(rng.integers(len(_KINDS)))] or Cyclic(period=float(rng.choice([1e-9, 1.0, 24.0, 1e9])))
        settings["columns"] = {"c0": kind}
    if rng.random() < 0.15:
        settings |= {"solver": str(rng.choice(["lbfgs", "bcd", "adam"])), "smoothing": "df", "max_iter": 20}
    return Case(X, y, weight, offset, settings)


def _nasty_column(rng: np.random.Generator, n: int) -> Any:
    base = rng.normal(size=n)
    found: dict[str, Callable[[], Any]] = {
        "huge": lambda: 1e300 * base,
        "tiny": lambda: 1e-300 * base,
        "both": lambda: base * 10.0 ** rng.integers(-300, 300, n),
        "far": lambda: 1e15 + np.floor(10 * base),
        "one": lambda: np.where(np.arange(n) == 0, 1.0, 0.0),
        "constant": lambda: np.full(n, 3.0),
        "nearly": lambda: 1.0 + 1e-15 * base,
        "missing": lambda: np.full(n, np.nan),
        "mostly": lambda: np.where(rng.random(n) < 0.9, np.nan, base),
        "id": lambda: np.arange(n, dtype=float),
        "text": lambda: np.array([f"id {k}" for k in range(n)], dtype=object),
        "odd": lambda: rng.choice(["", " ", "nan", "None", "{{x}}", "<b>", "\u202e", "0"], n),
        "zero": lambda: np.where(base > 0, 0.0, -0.0),
        "steps": lambda: np.exp(np.floor(30 * base)),
        "plain": lambda: base,
    }
    return found[str(rng.choice(list(found)))]()


def _nasty_target(rng: np.random.Generator, n: int, family: str) -> NDArray[np.float64]:
    base = rng.normal(size=n)
    if family == "bernoulli":
        return (np.arange(n) < rng.integers(0, 3)).astype(float)
    if family in ("poisson", "negative_binomial", "tweedie"):
        return np.asarray(rng.choice([np.floor(np.abs(base)), (np.arange(n) == 0), np.floor(1e15 * np.abs(base))]))
    if family == "gamma":
        return np.asarray(np.abs(base) * rng.choice([1e-300, 1.0, 1e300]) + np.finfo(float).tiny)
    sort = rng.choice(["plain", "far", "huge", "tiny", "constant", "one", "both"])
    return {
        "plain": base,
        "far": 1e12 + base,
        "huge": 1e200 * base,
        "tiny": 1e-300 * base,
        "constant": np.full(n, 7.0),
        "one": np.where(np.arange(n) == 0, 1e9, 0.0),
        "both": base * 10.0 ** rng.integers(-200, 200, n),
    }[str(sort)]


@contextmanager
def recorded() -> Iterator[list[float]]:
    """Of every ensemble member of fits inside: how far its model is from its own state, in standard deviations."""
    gaps: list[float] = []
    run = StagedFit.run

    def watched(member: StagedFit, report: Any, highest: int | None = None) -> Any:
        fits = run(member, report, highest)
        books = [column.book for column in member.columns]
        if all(book.support.exact for book in books):  # else codes stand for several values
            rows: Any = member._state.rows
            state = rows.derivatives.eta
            columns = [_representatives(book, codes) for book, codes in zip(books, member.codes.columns, strict=True)]
            model = predict(fits[-1], books, columns)
            gaps.append(float(np.abs(model - state).max() / max(float(state.std()), 1e-3)))
        return fits

    with patch.object(StagedFit, "run", watched):
        yield gaps


def _representatives(book: Any, codes: NDArray[Any]) -> NDArray[Any]:
    """Values that have these codes."""
    text = book.support.values.dtype == object
    missing: list[Any] = [None if text else np.nan] * (book.n_codes - book.support.size)
    values = np.array([*book.support.values.tolist(), *missing], dtype=object if text else np.float64)
    return np.asarray(values[codes])


def _fit(case: Case) -> tuple[AHOFMRegressor, list[str]]:
    """The fit, and what is wrong with it: warnings that say nothing to a user, infinite predictions without a word."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        model = AHOFMRegressor(**case.settings).fit(case.X, case.y, sample_weight=case.weight, offset=case.offset)
        finite = np.isfinite(model.predict(case.X, case.offset)).all()
    texts = {str(one.message) for one in told}
    problems = [f"leaked: {text[:60]}" for text in sorted(texts) if any(word in text for word in LEAKED)]
    warned = any(issubclass(one.category, ConvergenceWarning) for one in told)
    return model, problems if finite or warned else [*problems, "predictions are not finite"]


def check_ordinary(seed: int) -> list[str]:
    """What is wrong with the fit to an ordinary table."""
    case = ordinary(seed)
    with recorded() as gaps:
        model, problems = _fit(case)
    eta = model.model_.eta(case.X)[:, 0]
    scale = max(float(eta.std()), 1e-9 * float(np.abs(eta).max()), 1e-12)
    if gaps and max(gaps) > 1e-3:
        problems.append(f"state and model differ by {max(gaps):.2g} sd")
    parts = contributions(model, case.X, max_terms=10_000)
    why = shapley_values(model, case.X)
    for name, total in (
        ("contributions", parts.intercept + parts.values.sum(axis=1) + parts.rest),
        ("Shapley values", why.base + why.values.sum(axis=1)),
    ):
        gap = float(np.abs(total - eta).max()) / scale
        if not gap < 1e-6:
            problems.append(f"{name} and model differ by {gap:.2g} sd")
    score = model.score(case.X, case.y, case.weight, case.offset)
    if not score > -1e-3:
        problems.append(f"worse than a constant: {score:.3g}")
    return problems


def attempt_ordinary(case: int) -> tuple[str, str]:
    """An ordinary table is fitted, and all accounts of the fit agree; it is refused only if no column varies."""
    try:
        problems = check_ordinary(case)
    except ValueError as error:
        if (ordinary(case).X.nunique(dropna=False) > 1).any() or "every column of X is constant" not in str(error):
            raise
        return REJECTED, str(error)
    return (SILENT, "; ".join(problems)) if problems else (IDENTICAL, "")


def attempt_nasty(case: int) -> tuple[str, str]:
    """A nasty table is fitted with finite predictions, or refused with an error that says what to do."""
    try:
        _, problems = _fit(nasty(case))
    except np.linalg.LinAlgError as error:  # is a ValueError
        return UNDOCUMENTED, f"LinAlgError: {error}"
    except (ValueError, TypeError) as error:
        return REJECTED, str(error)
    return (SILENT, "; ".join(problems)) if problems else (IDENTICAL, "")


def _make_ordinary() -> Attempt:
    return attempt_ordinary


def _make_nasty() -> Attempt:
    return attempt_nasty


MAKERS: dict[str, Callable[[], Attempt]] = {"tables": _make_ordinary, "nasty tables": _make_nasty}


def part(name: str, cases: int, seconds: float) -> Counts:
    """Run one of the two."""
    begun = time.monotonic()
    found = list(run_cases(MAKERS[name], iter(range(cases)), seconds))
    return Counts.of(name, found, time.monotonic() - begun)

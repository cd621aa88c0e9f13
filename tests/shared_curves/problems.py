"""Small problems of several classes, with columns of every kind."""

from __future__ import annotations

import numpy as np
import pandas as pd

from ahofm.columns import Categorical, Encoder, RandomWalk, Spline, SplineIID
from ahofm.shared_curves.class_rows import ClassRows
from ahofm.shared_curves.columns import CodedColumn, class_columns, columns_in_ranks
from ahofm.shared_curves.problem import ClassProblem

KINDS = {"walk": RandomWalk(), "given": Spline(n_basis=6)}


def table(n: int, seed: int = 0) -> pd.DataFrame:
    """A smooth column with missing values, a random walk, a given spline, levels, and two values."""
    rng = np.random.default_rng(seed)
    smooth = rng.normal(size=n)
    smooth[rng.uniform(size=n) < 0.1] = np.nan
    return pd.DataFrame(
        {
            "smooth": smooth,
            "walk": rng.integers(0, 9, n).astype(float),
            "given": rng.uniform(size=n),
            "level": rng.choice(["a", "b", "c"], n),
            "two": rng.integers(0, 2, n).astype(float),
        }
    )


def problem(
    n: int = 300, n_classes: int = 4, seed: int = 0, *, in_ranks: bool = False, offset: bool = False
) -> ClassProblem:
    """Classes that depend on pairs of these columns."""
    rng = np.random.default_rng(seed + 1)
    X = table(n, seed)
    encoder = Encoder.learn(X, KINDS, default=SplineIID(n_basis=8), max_codes=None)
    codes = encoder.encode(X)
    signal = np.nan_to_num(X.smooth.to_numpy()) * (2.0 * X.two.to_numpy() - 1.0) + (X.walk.to_numpy() > 4)
    eta = np.outer(np.linspace(-1.0, 1.0, n_classes), signal) + rng.gumbel(size=(n_classes, n)) * 0.5
    books = encoder.codebooks
    automatic = [book.name not in KINDS for book in books]
    columns = class_columns(books, automatic, "spline", center=True)
    columns = columns_in_ranks(columns, automatic, center=True) if in_ranks else columns
    coded = [CodedColumn(own, size) for own, size in zip(codes.columns, codes.sizes, strict=True)]
    weight = rng.integers(1, 4, n).astype(float)
    shifts = rng.normal(size=(n_classes, n)) if offset else None
    return ClassProblem(ClassRows(eta.argmax(axis=0), weight, shifts, n_classes), columns, coded)


__all__ = ["KINDS", "Categorical", "problem", "table"]

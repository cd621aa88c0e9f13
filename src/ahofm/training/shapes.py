"""Shapes that predictions must have in some columns: ``monotonic_cst``, checked against the columns and the family."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ahofm.columns import Categorical, Codebook, Cyclic
from ahofm.columns.shaped import Shape
from ahofm.families import Family, GaussianLocationScale
from ahofm.training.data import Data
from ahofm.training.factor_groups import column_position
from ahofm.training.settings import Settings

SHAPES: dict[Any, Shape | None] = {
    1: "increasing",
    -1: "decreasing",
    0: None,
    "convex": "convex",
    "concave": "concave",
}


def shapes_of(monotonic_cst: Any, books: Sequence[Codebook], family: Family) -> dict[int, Shape]:
    """Shape by position of the column; ValueError for what cannot be guaranteed.

    Parameters
    ----------
    monotonic_cst : dict of column to shape, sequence with one shape per column, or None
    books : sequence of Codebook
        All columns.
    family : Family
    """
    if monotonic_cst is None:
        return {}
    names = [book.name for book in books]
    found: dict[int, Shape] = {}
    for column, value in _items(monotonic_cst, names):
        j = column_position(column, names, "monotonic_cst")
        shape = _shape(value, names[j])
        if shape is None:
            continue
        if found.get(j, shape) != shape:
            raise ValueError(
                f"monotonic_cst asks for two shapes of column {names[j]!r}: {found[j]} and {shape}; name it once"
            )
        _check_kind(books[j])
        if books[j].size:
            found[j] = shape
    if found and family.n_eta > 1 and not isinstance(family, GaussianLocationScale):
        raise ValueError(
            f"monotonic_cst is for families of one linear predictor, not for {family.name} with {family.n_eta}: "
            "probabilities of several classes, or means of several linear predictors, are not monotone in one of them"
        )
    return found


def check_curvature(shapes: Mapping[int, Shape], books: Sequence[Codebook], interacting: Iterable[int]) -> None:
    """Raise ValueError where a convex or concave column may interact."""
    partners = set(interacting)
    for j, shape in shapes.items():
        if shape in ("convex", "concave") and j in partners:
            name = books[j].name
            raise ValueError(
                f"monotonic_cst={{{name!r}: {shape!r}}} is for columns without interactions: "
                f"add exclude=[{name!r}], or fit order=1"
            )


def shaped_by_default(settings: Settings, data: Data) -> set[str]:
    """Names of the columns that are to have a shape, where the prior of factors is left to the fit."""
    if settings.factor_prior != "auto":
        return set()
    books = data.encoder.codebooks
    return {books[j].name for j in shapes_of(settings.monotonic_cst, books, data.family)}


def check_outside_range(shapes: Mapping[int, Shape], books: Sequence[Codebook]) -> None:
    """Raise ValueError where a column has functions without bounds."""
    for book in books if shapes else ():
        if getattr(book.kind, "outside", "clamp") == "linear":
            raise ValueError(
                f"monotonic_cst needs functions with bounds, and column {book.name!r} has outside='linear'; "
                "use outside='auto' or 'clamp'"
            )


def _items(given: Any, names: Sequence[str]) -> list[tuple[Any, Any]]:
    if isinstance(given, Mapping):
        return list(given.items())
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise ValueError(
            f"monotonic_cst must be a dict of column to 1, -1 or 0, or one entry per column, got {given!r}"
        )
    entries = list(given)
    if len(entries) != len(names):
        raise ValueError(f"monotonic_cst has {len(entries)} entries, and X has {len(names)} columns; give one for each")
    return list(enumerate(entries))


def _shape(value: Any, name: str) -> Shape | None:
    number = value.item() if isinstance(value, np.generic) else value
    if isinstance(number, bool) or not isinstance(number, (int, float, str)) or number not in SHAPES:
        raise ValueError(
            f"monotonic_cst of column {name!r} must be 1 (increasing), -1 (decreasing), 0, 'convex' or 'concave', "
            f"got {value!r}"
        )
    return SHAPES[number]


def _check_kind(book: Codebook) -> None:
    if isinstance(book.kind, Categorical) or (book.edges is None and book.size):
        raise ValueError(
            f"monotonic_cst names column {book.name!r}, which holds levels without an order; convert it to numbers"
        )
    if isinstance(book.kind, Cyclic):
        raise ValueError(
            f"monotonic_cst names column {book.name!r}, which is cyclic: a function that rises all the way round does "
            "not exist; give the column another kind, or no shape"
        )

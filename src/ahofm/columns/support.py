"""Learn where a column has data: distinct values when they are few, bins of equal mass beyond."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ahofm.columns.basis import Floats
from ahofm.columns.categorical import find_levels
from ahofm.columns.kind import Support
from ahofm.columns.table import is_numeric, missing_in

MAX_CODES = 254
"""With the missing and the neutral code, a column still fits one byte a cell."""

MANY_CODES = 2048
"""So many distinct values are kept when a column repeats them."""


SHORT_MEANS, LARGEST_MULTIPLE = 2.0**-20, 2.0**44
"""Steps of the means of bins, relative to the least distance between a mean and the edge of its bin; and the largest
multiple: longer ones take the bytes of the digits that they are to save. Linear predictors of golden fits with bins
moved by 1e-8."""

_DECIMALS, _ROUNDING = 6, 1e-15


def learn_levels(column: NDArray[Any], weight: Floats | None, order: Sequence[str] = ()) -> Support:
    """Every distinct value is a level: sorted, texts by ``order`` first. Rows of weight zero do not count."""
    present = ~missing_in(column) if weight is None else ~missing_in(column) & (weight > 0)
    values = column[present]
    if is_numeric(column):
        levels = np.unique(values)
    else:
        levels = np.empty(len(distinct := set(values.tolist())), dtype=object)
        place = {level: k for k, level in enumerate(order)}
        levels[:] = sorted(distinct, key=lambda level: (place.get(level, len(place)), level))
    mass = np.bincount(find_levels(levels, values), None if weight is None else weight[present], minlength=len(levels))
    return Support(levels, mass.astype(np.float64), 0.0, 0.0, exact=True)


def learn_numbers(column: Floats, weight: Floats | None, max_codes: int | None) -> tuple[Support, Floats]:
    """Support of a numeric column and the edges between its codes.

    Up to ``max_codes`` distinct values have a code each. Beyond, values are binned by the mid-rank of their mass;
    a value repeated often has a bin to itself, and integer weights act as repeated rows. Without ``max_codes`` a column
    has up to 2,048 codes if its values repeat, twice on average, and 254 if they do not.

    Returns
    -------
    support : Support
        With the mean of each bin as its value.
    edges : array of shape (codes - 1,)
        The code of x is the number of edges strictly below x.
    """
    values, mass = distinct(column, weight)
    if len(values) == 0:
        return Support(values, mass, 0.0, 0.0, exact=True), np.empty(0)
    low, high = float(values[0]), float(values[-1])
    if max_codes is None:
        rows = float(mass.sum())
        if weight is not None and (weight != np.floor(weight)).any():  # no repeats of rows: each of them is one
            rows = float(np.count_nonzero((weight > 0) & ~np.isnan(column)))
        max_codes = MANY_CODES if 2 * len(values) <= rows else MAX_CODES
    if len(values) <= max_codes:
        return Support(values, mass, low, high, exact=True), _edges(values[:-1], values[1:])
    counted = _capped(mass, max_codes)
    rank = np.cumsum(counted)
    total = rank[-1]
    rank -= 0.5 * counted
    cuts = np.searchsorted(rank, total * np.arange(max_codes) / max_codes)
    first = np.unique(cuts[cuts < len(values)])
    last = np.append(first[1:], len(values)) - 1
    bin_mass = np.add.reduceat(mass, first)
    scale = 0.5 ** np.ceil(np.log2(mass.sum()) + 1)  # a power of two: sums of huge values do not overflow
    means = np.add.reduceat(values * (mass * scale), first) / (bin_mass * scale)
    means = np.clip(means, values[first], values[last])
    edges = _short_edges(values[last[:-1]], values[first[1:]])
    return Support(_short_means(means, edges), bin_mass, low, high, exact=False), edges


def distinct(column: Floats, weight: Floats | None) -> tuple[Floats, Floats]:
    """Distinct numbers in order, and the weight of each; NaN and rows of weight zero do not count."""
    if weight is None:
        ordered = np.sort(column)  # NaN goes last
        ordered = ordered[: np.searchsorted(ordered, np.nan)] + 0.0  # + 0.0: no -0
        if len(ordered) == 0:
            return ordered, ordered
        starts = np.concatenate([[True], ordered[1:] != ordered[:-1]])
        if starts.all():
            return ordered, np.ones(len(ordered))
        first = np.flatnonzero(starts)
        return ordered[first], np.diff(first, append=len(ordered)).astype(np.float64)
    present = (weight > 0) & ~np.isnan(column)
    values, inverse = np.unique(column[present], return_inverse=True)
    return values + 0.0, np.asarray(np.bincount(inverse, weight[present], minlength=len(values)), dtype=np.float64)


def _capped(mass: Floats, max_codes: int) -> Floats:
    """Mass in which no value counts for more than two bins: enough for a bin of its own, and no more.

    Otherwise a column that is mostly zeros would spend its bins on the zeros.
    """
    relative = mass / mass.max()
    if 2.0 * relative.sum() >= max_codes:
        return mass
    ordered = np.sort(relative)[::-1]
    rest = np.cumsum(ordered[::-1])[::-1]  # without the k heaviest values
    heavy = np.arange(min((max_codes - 1) // 2 + 1, len(mass)))
    caps = 2.0 * rest[heavy] / (max_codes - 2 * heavy)  # of which k are reached: 2 (k cap + rest) / max_codes
    fits = np.flatnonzero(ordered[heavy] <= caps * (1.0 + 1e-9))
    cap = caps[fits[0]] if len(fits) else ordered[heavy[-1]]
    return np.asarray(np.minimum(mass, mass.max() * cap))


def _edges(below: Floats, above: Floats) -> Floats:
    """A number in [below, above) for each pair: the middle, or ``below`` where there is nothing between."""
    middle = 0.5 * below + 0.5 * above
    return np.where((middle >= above) | (middle < below), below, middle)


def _short_edges(below: Floats, above: Floats) -> Floats:
    """A number in [below, above) of few digits for each pair, near the middle: files of binned columns are small."""
    middle = _edges(below, above)
    with np.errstate(all="ignore"):
        step = np.exp2(np.floor(np.log2(0.5 * above - 0.5 * below)))  # a power of two, more than a quarter of the gap
        short = np.rint(middle / step) * step + 0.0
        inside = (short > below) & (short < above)
    return np.where(inside, short, middle)


def _short_means(means: Floats, edges: Floats) -> Floats:
    """Means of bins as multiples of a power of two, far below the distance to the edges of the bins; for small files.

    As they are where most have few decimals, which people read, or bins are so uneven that multiples are no shorter.
    """
    with np.errstate(all="ignore"):
        decimals = np.rint(means * 10.0**_DECIMALS)
        short = (np.abs(decimals / 10.0**_DECIMALS - means) <= _ROUNDING * np.abs(means)) & (np.abs(decimals) < 2.0**50)
        if short.mean() >= 0.5:
            return means
        distance = min((edges - means[:-1]).min(), (means[1:] - edges).min())
        step = np.exp2(np.floor(np.log2(distance))) * SHORT_MEANS
        multiples = np.rint(means / step)
        usable = step > np.finfo(np.float64).tiny and np.abs(multiples).max() < LARGEST_MULTIPLE
    return multiples * step + 0.0 if usable else means

"""Dates and times: a column of them becomes columns of numbers, its trend, season, weekday and hour.

As columns of their own they have interactions with one another: the hour of a weekday is not that of a Sunday.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ahofm.columns.basis import Floats
from ahofm.columns.cyclic import Cyclic
from ahofm.columns.kind import ColumnKind
from ahofm.columns.table import PARTS_OF_DATES, Table, source_of_part

YEAR = 365.2425
"""Days of a mean year."""

_PERIODS = {"season": YEAR, "weekday": 7.0, "hour": 24.0}
_LEAST_DAYS = {"trend": 0.0, "season": YEAR, "weekday": 14.0, "hour": 0.0}
"""Days from the first to the last date from which on a part is taken: below a year, a season cannot be told from a
trend."""


@dataclass(frozen=True)
class Date:
    """Parts of a column of dates that predict; by default those that the data can tell apart.

    A column "when" of dates or times becomes the columns "when (trend)", in days, "when (season)", the day of the year,
    "when (weekday)", from 0 for Monday, and "when (hour)", with fractions. The last three are cyclic.

    Parameters
    ----------
    trend, season, weekday, hour : bool or None, default None
        Whether the part is taken. None decides by the dates of training: a season from a year on, weekdays from two
        weeks on, hours where not all are midnight.

    Examples
    --------
    >>> import pandas as pd
    >>> from ahofm import Date
    >>> days = pd.DataFrame({"when": pd.date_range("2022-01-01", periods=300, freq="D")})
    >>> sales = (days.when.dt.day_of_week >= 5) + 0.01 * np.arange(300)
    >>> weekly = AHOFMRegressor(order=1, random_state=0).fit(days, sales)
    >>> weekly.model_.encoder.names
    ('when (trend)', 'when (weekday)')
    >>> cycles = AHOFMRegressor(order=1, columns={"when": Date(trend=False)}, random_state=0).fit(days, sales)
    >>> cycles.model_.encoder.names
    ('when (weekday)',)
    """

    trend: bool | None = None
    season: bool | None = None
    weekday: bool | None = None
    hour: bool | None = None

    def takes(self, part: str, days: Floats, values: Floats) -> bool:
        """Tell whether a part is taken.

        Parameters
        ----------
        part : "trend", "season", "weekday" or "hour"
            Which one.
        days : array of shape (n,)
            The dates, in days.
        values : array of shape (n,)
            The part of each.

        Returns
        -------
        bool
            By the wish, or by the dates where there is none.
        """
        wish = getattr(self, part)
        known = days[np.isfinite(days)]
        if not len(known):
            return bool(wish)
        apart = np.ptp(known) >= _LEAST_DAYS[part] and np.ptp(values[np.isfinite(values)]) > 0.0
        return bool(apart) if wish is None else bool(wish)


def with_dates(table: Table, columns: Any) -> tuple[Table, Any]:
    """The parts of dates that a fit takes, and the kinds of all columns, those of the parts included.

    Parameters
    ----------
    table : Table
        With all parts of its dates.
    columns : dict of column to kind, one kind or None
        As estimators take it, with ``Date`` for columns of dates.

    Raises
    ------
    ValueError
        For ``Date`` of a column that holds no dates, or where no part is left.
    """
    sources = {source for source in (source_of_part(name, table.dates) for name in table.names) if source}
    given = dict(columns) if isinstance(columns, Mapping) else {}
    wishes = {key: kind for key, kind in given.items() if isinstance(kind, Date)}
    for key in wishes:
        if key not in sources:
            raise ValueError(
                f"columns[{key!r}] is Date, but the column holds no dates; give it as datetime, or drop it"
            )
    if not sources:
        return table, columns
    kept, kinds = list(table.names), {}
    for source in sorted(sources):
        days = _column(table, f"{source} (trend)")
        wish, taken = wishes.get(source, Date()), 0
        for part in PARTS_OF_DATES:
            name = f"{source} ({part})"
            if name not in table.names:
                continue
            if not wish.takes(part, days, _column(table, name)):
                kept.remove(name)
                continue
            taken += 1
            if part in _PERIODS:
                kinds[name] = Cyclic(period=_PERIODS[part])
        if not taken:
            raise ValueError(f"column '{source}': no part of its dates differs between rows; drop it, or see Date()")
    places = [table.names.index(name) for name in kept]
    chosen = replace(table, names=tuple(kept), columns=tuple(table.columns[j] for j in places))
    if isinstance(columns, ColumnKind):
        return chosen, columns
    return chosen, {**kinds, **{key: kind for key, kind in given.items() if key not in wishes}} or None


def _column(table: Table, name: str) -> NDArray[Any]:
    return table.columns[table.names.index(name)]

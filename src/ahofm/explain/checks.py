"""What to be careful about: checks with codes, each with what was found, what it means and what to do.

``docs/checks.md`` has a section for every code.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ahofm.columns import Codebook
from ahofm.columns.basis import Floats
from ahofm.columns.table import Table
from ahofm.explain.arguments import Fitted, model_of, training_of
from ahofm.explain.axis import axis_of
from ahofm.explain.concurvity import shared_effects
from ahofm.explain.pure import purify
from ahofm.explain.summary import dependence
from ahofm.model import Model

_ID_SHARE = 0.5
"""Distinct values per row from which levels, or whole numbers, look like an identifier."""

_THIN = 5.0
"""Rows of a level below which its effect is mostly the average of all levels."""

_FAR = 1.5
"""Range of a curve where hardly any rows are, relative to its range elsewhere, from which it is named."""

_ROWS_PER_DF = 5.0


@dataclass(frozen=True)
class Check:
    """One thing that was looked at.

    Attributes
    ----------
    code : str
        The same for the same check in every model, e.g. "overdispersion".
    title : str
    found : tuple of str
        What was found; empty where nothing is wrong.
    meaning, remedy : str
    """

    code: str
    title: str
    found: tuple[str, ...]
    meaning: str
    remedy: str

    @property
    def passed(self) -> bool:
        """Whether nothing was found."""
        return not self.found


def checks(fitted: Fitted) -> tuple[Check, ...]:
    """Look at everything that can be looked at; a model without training rows has fewer checks.

    Parameters
    ----------
    fitted : estimator or model
        Fitted.

    Returns
    -------
    tuple of Check
        Those that found something first.

    Examples
    --------
    >>> from ahofm.explain import checks
    >>> sorted(check.code for check in checks(model) if check.code.startswith("d"))
    ['degrees_of_freedom', 'dependent_columns']
    """
    model = model_of(fitted, band=True)
    training = training_of(fitted)
    found = [_converged(model), _concurvity(model), _extrapolation(model), _thin(model)]
    if model.pearson_dispersion is not None:  # of a family that fixes how much targets vary
        found.append(_dispersion(model))
    if training is not None:
        found += [_dependent(model, training.table), _identifiers(model, training.table)]
        found += [_degrees(model, training.n_rows)] if model.band is not None else []
    return tuple(sorted(found, key=lambda check: check.passed))


def _converged(model: Model) -> Check:
    return Check(
        "convergence",
        "The fit ended by itself",
        () if model.trace.reason.success else (model.trace.reason.value,),
        "A fit that was stopped is a model, but not the one that more time would have given.",
        "Give it more time: a larger time_budget or max_iter, or effort='fast' for less to do.",
    )


def _dispersion(model: Model) -> Check:
    said = [one for one in model.choices if one.name == "dispersion"]
    return Check(
        "overdispersion",
        "Targets vary as the family says",
        tuple(f"{one.value}: {one.reason}" for one in said),
        "The family fixes how much targets vary around their mean. Where they vary more, predicted means are still "
        "right, but intervals and p-values are too narrow.",
        "Take a family that estimates its dispersion: quasi_poisson or negative_binomial for counts, quasi_binomial "
        "for shares.",
    )


def _concurvity(model: Model) -> Check:
    return Check(
        "concurvity",
        "Every column has an effect of its own",
        tuple(dict.fromkeys(said for k in range(model.family.n_eta) for said in shared_effects(model, k))),
        "Where a function of one column reproduces the effect of another, rows cannot tell whose effect it is. "
        "Predictions do not suffer; single effects do.",
        "Read the two effects together, or drop one of the columns.",
    )


def _dependent(model: Model, table: Table) -> Check:
    return Check(
        "dependent_columns",
        "Columns are nearly independent",
        tuple(dependence(model, table)),
        "Shares of variance and Shapley values average over columns as if they were independent of each other. With "
        "dependent columns they also count combinations of values that do not occur.",
        "Read shares as an order of importance rather than as percentages; effects and predictions are not concerned.",
    )


def _identifiers(model: Model, table: Table) -> Check:
    found = []
    for j, book in enumerate(model.encoder.codebooks):
        column = table.columns[j]
        if book.edges is None:
            many = book.support.size > max(_ID_SHARE * table.n_rows, 20)
            count = book.support.size
        else:
            numbers = np.asarray(column, dtype=np.float64)
            numbers = numbers[~np.isnan(numbers)]
            count = len(np.unique(numbers)) if (numbers == np.round(numbers)).all() else 0
            dense = count > 1 and np.ptp(numbers) < 2.0 * count  # 1, 2, 3, ...: not populations or prices
            many = bool(dense and count > max(0.9 * table.n_rows, 20))
        if book.size and many:
            found.append(f"column '{book.name}' has {count:,} different values in {table.n_rows:,} rows")
    return Check(
        "identifiers",
        "No column looks like an identifier",
        tuple(found),
        "A column with a value of its own for nearly every row names the rows. What is learned of it says nothing of "
        "new rows, and a number that counts the rows may carry the order in which they were collected.",
        "Drop the column, unless its values come back in the rows to predict.",
    )


def _thin(model: Model) -> Check:
    found = []
    for book in model.encoder.codebooks:
        if book.edges is None and book.size:
            few = int((book.support.mass < _THIN).sum())
            if few:
                have = "has" if few == 1 else "have"
                found.append(f"column '{book.name}': {few:,} of {book.support.size:,} levels {have} fewer than 5 rows")
    return Check(
        "thin_data",
        "Every level has rows to learn from",
        tuple(found),
        "Effects of levels with few rows are shrunk towards the average of all levels, the more the fewer the rows. "
        "Their bands are wide.",
        "Nothing has to be done; to see an effect of their own, merge rare levels or collect more rows.",
    )


def _extrapolation(model: Model) -> Check:
    found = [said for book, curve in _main_curves(model) for said in _far_ends(book, curve)]
    return Check(
        "extrapolation",
        "Curves do not run away where there are hardly any rows",
        tuple(dict.fromkeys(found)),
        "Beyond the numbers that most rows have, a curve rests on a handful of rows, and beyond the last of them on "
        "none at all: it stays where it was, or goes on as a straight line if that was asked for.",
        "Trust predictions there as far as their bands say; clip the column at a value that has rows, or fit with "
        "columns={...: Linear()}.",
    )


def _main_curves(model: Model) -> Iterator[tuple[Codebook, Floats]]:
    """Main effects of columns of numbers at their codes."""
    for k in range(model.family.n_eta):
        pure = purify(model, k)
        for j, book in enumerate(model.encoder.codebooks):
            if book.size and book.edges is not None and book.support.size > 2:
                yield book, pure.main_of_column(j, np.asarray(book.support.values, dtype=np.float64))


def _far_ends(book: Codebook, curve: Floats) -> Iterator[str]:
    axis, values = axis_of(book), np.asarray(book.support.values, dtype=np.float64)
    if not axis.beyond > 0.0:
        return
    inside = (values >= axis.low) & (values <= axis.high)
    height = float(np.ptp(curve[inside])) if inside.any() else 0.0
    if height > 0.0 and float(np.ptp(curve)) > _FAR * height:
        yield (
            f"column '{book.name}': {axis.beyond:.1%} of the rows lie outside {axis.low:.4g} to {axis.high:.4g}, where "
            f"the curve moves {np.ptp(curve) / height:.1f} times as far as inside"
        )


def _degrees(model: Model, n_rows: int) -> Check:
    assert model.band is not None
    used = 1.0 + sum(float(part.sum()) for own in model.band.edf for part in own.values())
    many = used * _ROWS_PER_DF > n_rows
    return Check(
        "degrees_of_freedom",
        "There are enough rows for what was fitted",
        (f"{used:,.0f} effective degrees of freedom for {n_rows:,} rows",) if many else (),
        "With fewer than five rows for each of them the fit follows its rows closely, and scores in "
        "training say little about new rows.",
        "Read the cross-validated score, not that of training; a lower order, or fewer columns, needs fewer rows.",
    )

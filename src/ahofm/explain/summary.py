"""A model in one page: what was fitted, how well, what each column and order is worth, and what to be careful about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from ahofm.columns.basis import Floats
from ahofm.columns.table import Table
from ahofm.explain.arguments import Fitted, model_of, training_of
from ahofm.explain.concurvity import shared_effects
from ahofm.explain.frames import Framed, frame
from ahofm.explain.html import summary_html
from ahofm.explain.markdown import markdown_table, markdown_text
from ahofm.explain.pure import purify
from ahofm.explain.shares import variances
from ahofm.families import Bernoulli
from ahofm.kernels.blas import one_blas_thread
from ahofm.model import Choice, Edit, Gain, Model, Validated
from ahofm.model.band import Band
from ahofm.orders import PRODUCT, order_name
from ahofm.threads import obeys_n_jobs

_DEPENDENT = 0.5
"""Rank correlations from here on are worth a warning."""

_ROWS = 20_000
_ROUNDING = 1e-14
"""Standard deviation of a linear predictor relative to its size, up to which it is a constant."""


P_NOTE = (
    "approximate; a fit that chooses its terms makes them look more certain than they are; each is given all other "
    "columns: of columns that share an effect, none may be needed"
)
"""How to read p-values."""


@dataclass(frozen=True)
class Summary(Framed):
    """What mgcv's users look for.

    Attributes
    ----------
    family : str
    n_rows : int or None
        None when the rows of training are not at hand; then there is no ``deviance_explained`` either.
    order : int
    ranks : dict of order to rank
    columns : tuple of str
    kinds : tuple of str
        What each column became.
    shares, main_shares : arrays of shape (columns,)
        Of the linear predictor's variance: everything the column is in, and its main effect.
    edf : dict of order to array of shape (columns,), or None
        Effective degrees of freedom.
    smoothing_parameters : dict of order to array of shape (columns,)
        First smoothing parameter, in the units of the fit.
    p_main : array of shape (columns,) or None
        Approximate probability of a main effect as large as this if there were none (Wood 2013).
    orders : dict of order to share of the variance
    gains : tuple of Gain
        What rows that were not fitted said of each order; empty where there were none.
    validated : Validated or None
        How well these rows were predicted: R², or log-loss, calibration error and others for classes.
    pearson_dispersion : float or None
        Pearson's statistic over its residual degrees of freedom, where the family takes the dispersion as known; 1 when
        its variance is right. None where it says nothing: rows of one trial each.
    dispersion, deviance_explained : float or None
    choices : tuple of Choice
    solver, ended : str
    warnings : tuple of str
    edits : tuple of Edit
        What was changed by hand after the fit.
    variance_components : dict of column name to float
        Variances of the levels' effects: columns of levels are random effects.
    """

    family: str
    n_rows: int | None
    order: int
    ranks: Mapping[int, int]
    columns: tuple[str, ...]
    kinds: tuple[str, ...]
    shares: Floats
    main_shares: Floats
    edf: Mapping[int, Floats] | None
    smoothing_parameters: Mapping[int, Floats]
    p_main: Floats | None
    orders: Mapping[int, float]
    gains: tuple[Gain, ...]
    validated: Validated | None
    pearson_dispersion: float | None
    dispersion: float | None
    deviance_explained: float | None
    choices: tuple[Choice, ...]
    solver: str
    ended: str
    warnings: tuple[str, ...]
    edits: tuple[Edit, ...] = ()
    variance_components: Mapping[str, float] = field(default_factory=dict)

    def to_frame(self, backend: str | None = None) -> Any:
        """One row per column."""
        data: dict[str, Any] = {"column": list(self.columns), "kind": list(self.kinds)}
        data |= {"share": self.shares, "main_share": self.main_shares}
        for order, by_column in (self.edf or {}).items():
            data[f"edf_{order}"] = by_column
        for order, by_column in self.smoothing_parameters.items():
            data[f"smoothing_parameter_{order}"] = by_column
        if self.p_main is not None:
            data["p_main"] = self.p_main
        return frame(data, backend)

    def _repr_html_(self) -> str:
        """For notebooks."""
        return summary_html(self)

    def to_markdown(self) -> str:
        """Make a text with tables.

        Returns
        -------
        str
            Markdown.
        """
        lines = [f"- {markdown_text(line)}" for line in self._head_lines()]
        lines += ["", *markdown_table(self.column_table()), ""]
        lines += [f"- {markdown_text(line)}" for line in self._order_lines()[1:]]
        lines += [f"- edited by hand: {markdown_text(str(edit))}" for edit in self.edits]
        lines += [f"- warning: {markdown_text(text)}" for text in self.warnings]
        return "\n".join(lines) + "\n"

    def column_table(self) -> list[list[str]]:
        """List the columns as texts, the largest share first.

        Returns
        -------
        list of lists of str
            A row per column, below a row of names.
        """
        orders = list(self.edf or {})
        head = ["column", "kind", "share", "main", *(f"edf {order_name(order)}" for order in orders)]
        rows = [head + ([] if self.p_main is None else ["p main"])]
        for j in np.argsort(-self.shares, kind="stable"):
            row = [self.columns[j], self.kinds[j], f"{self.shares[j]:.1%}", f"{self.main_shares[j]:.1%}"]
            row += [f"{(self.edf or {})[order][j]:.1f}" for order in orders]
            rows.append(row + ([] if self.p_main is None else [p_text(float(self.p_main[j]))]))
        return rows

    def __str__(self) -> str:
        """For people."""
        lines = [*self._head_lines(), "", *self._column_lines(), "", *self._order_lines()]
        if self.p_main is not None:
            lines.append(f"p: {P_NOTE}")
        lines += [f"edited by hand: {edit}" for edit in self.edits]
        lines += [f"warning: {text}" for text in self.warnings]
        lines.append("terms: docs/glossary.md")
        return "\n".join(lines)

    def _head_lines(self) -> list[str]:
        rows = "" if self.n_rows is None else f", {self.n_rows} rows"
        lines = [f"{self.family}, order {self.order}{rows}; solver {self.solver}: {self.ended}"]
        if self.deviance_explained is not None:
            lines.append(f"deviance explained in training: {self.deviance_explained:.1%}")
        if self.dispersion is not None:
            lines.append(f"dispersion: {self.dispersion:.4g}")
        if self.pearson_dispersion is not None:
            lines.append(f"Pearson dispersion: {self.pearson_dispersion:.3g} (1 where the family's variance is right)")
        names = {"interactions": "averaged fits"}
        lines += [f"{names.get(one.name, one.name)}: {one.value} ({one.reason})" for one in self.choices]
        lines += [
            f"random effect of {name}: standard deviation {np.sqrt(variance):.4g}"
            for name, variance in self.variance_components.items()
        ]
        return lines

    def _column_lines(self) -> list[str]:
        rows = self.column_table()
        wide = [max(len(row[0]) for row in rows) + 2, 12, 8, 8, *(8 for _ in self.edf or {}), 10]
        left = "".join
        return [
            left(
                f"{text:<{n}}" if k < 2 else f"{text:>{n}}" for k, (text, n) in enumerate(zip(row, wide, strict=False))
            )
            for row in rows
        ]

    def _order_lines(self) -> list[str]:
        lines = ["order   share    rank"]
        for order, share in self.orders.items():
            rank = str(self.ranks.get(order, 0)) if order > 1 else "-"
            lines.append(f"{order:<5}{share:>8.1%}{rank:>8}")
        if PRODUCT in self.ranks:
            lines.append(f"product factors, which have terms of every order: {self.ranks[PRODUCT]}")
        lines += [str(gain) for gain in self.gains]
        return lines if self.validated is None else [*lines, self.validated.told(self.n_rows)]


def p_text(value: float) -> str:
    """A probability for people."""
    return "-" if np.isnan(value) else "<0.0001" if value < 1e-4 else f"{value:.4f}"


@obeys_n_jobs
@one_blas_thread()
def summary(fitted: Fitted) -> Summary:
    """Summarise a model.

    Parameters
    ----------
    fitted : estimator or model
        Without training rows, as after loading, it has no deviance explained.

    Returns
    -------
    Summary
        ``print`` it, or call ``to_frame``.

    Examples
    --------
    >>> from ahofm.explain import summary
    >>> said = summary(model)
    >>> print(said)  # doctest: +ELLIPSIS
    Gaussian(link='identity'), order 2, 300 rows; solver variational: ...
    >>> bool(said.p_main[0] < 0.001)
    True
    """
    model = model_of(fitted, band=True)
    training = training_of(fitted)
    parts = [variances(purify(model, k)) for k in range(model.family.n_eta)]
    total = sum(sum(orders.values()) for orders, _, _ in parts) or 1.0
    books = model.encoder.codebooks
    warnings = [] if model.trace.reason.success else [model.trace.reason.value]
    warnings += [f"{one.value}; {one.reason}" for one in model.choices if one.name == "dispersion"]
    explained = None
    if training is not None:
        explained = model.deviance_explained(training.table, training.y, training.weight, training.offset)
        warnings += [said for k in range(model.family.n_eta) for said in shared_effects(model, k)]
        warnings += dependence(model, training.table)
    return Summary(
        family=repr(model.family),
        n_rows=None if training is None else training.n_rows,
        order=model.order,
        ranks=dict(model.ranks),
        columns=tuple(model.encoder.names),
        kinds=tuple("constant" if book.kind is None else book.kind.name for book in books),
        shares=sum((each for _, _, each in parts), np.zeros(len(books))) / total,
        main_shares=sum((main for _, main, _ in parts), np.zeros(len(books))) / total,
        edf=None if model.band is None else _edf(model.band),
        smoothing_parameters=dict(model.smoothing_parameters),
        p_main=None if model.band is None else _main_tests(model.band),
        orders={order: sum(part[0].get(order, 0.0) for part in parts) / total for order in range(1, model.order + 1)},
        gains=model.gains,
        validated=model.validated,
        pearson_dispersion=_pearson(model, training),
        dispersion=model.dispersion,
        deviance_explained=explained,
        choices=tuple(one for one in model.choices if one.name != "dispersion"),
        solver=model.trace.solver,
        ended=model.trace.reason.value,
        warnings=tuple(warnings),
        edits=model.edits,
        variance_components=dict(model.variance_components),
    )


def _edf(band: Band) -> dict[int, Floats]:
    first = band.edf[0]
    return {order: np.asarray(sum(part[order] for part in band.edf)) for order in first}


def _main_tests(band: Band) -> Floats | None:
    """P-values of the columns; None for a band of an earlier version, which has none."""
    return np.array([band.tests.get(j, np.nan) for j in range(len(band.mains))]) if band.tests else None


def _pearson(model: Model, training: Any) -> float | None:
    """Pearson's statistic over its residual degrees of freedom, or over the rows where these are not known."""
    if model.pearson_dispersion is None or model.band is None:
        return model.pearson_dispersion
    shares = isinstance(model.family, Bernoulli) and training is not None
    rows = float(training.n_rows) if shares else model.total
    used = 1.0 + sum(float(part.sum()) for by_order in model.band.edf for part in by_order.values())
    return model.pearson_dispersion / max(1.0 - used / rows, 0.1)


def dependence(model: Model, table: Table) -> list[str]:
    """How far columns are from independent, which shares of variance take them to be: a sentence each."""
    independent = sum(sum(variances(purify(model, k))[0].values()) for k in range(model.family.n_eta))
    rows = np.arange(0, table.n_rows, max(table.n_rows // _ROWS, 1))
    some = table.take(rows)
    found = []
    names, ranks = [], []
    for book, column in zip(model.encoder.codebooks, some.columns, strict=True):
        if book.size and book.edges is not None:
            names.append(book.name)
            ranks.append(stats.rankdata(np.where(np.isnan(column), np.nanmedian(column), column)))
    if len(names) > 1:
        correlation: NDArray[np.float64] = np.abs(np.corrcoef(ranks)) - np.eye(len(names))
        at = np.unravel_index(int(correlation.argmax()), correlation.shape)
        if correlation[at] >= _DEPENDENT:
            found.append(
                f"columns are dependent, most of all '{names[at[0]]}' and '{names[at[1]]}' (rank correlation "
                f"{correlation[at]:.2f}); shares of variance and Shapley values average over columns as if independent"
            )
    eta = model.without_repeated.eta(some)
    actual = float(eta.var(axis=0).sum())
    if (
        min(actual, independent) > _ROUNDING**2 * float(np.square(eta).mean(axis=0).sum())
        and not 0.67 < actual / independent < 1.5
    ):
        found.append(
            f"the linear predictor's variance in training is {actual:.3g}; "
            f"with independent columns it would be {independent:.3g}"
        )
    return found

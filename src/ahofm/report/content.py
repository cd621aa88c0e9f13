"""What the page says, as plain numbers and text: facts, shares, effects, rows, diagnostics, how it was fitted."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

import numpy as np
from scipy import stats

from ahofm.columns import Codebook
from ahofm.columns.basis import Floats
from ahofm.columns.table import Table, is_numeric
from ahofm.estimators import TrainingRows
from ahofm.explain import effect, summary, top_interactions, variance_shares
from ahofm.explain.arguments import Fitted, model_of, training_of
from ahofm.explain.summary import p_text
from ahofm.export.description import describe
from ahofm.export.means import mean_name
from ahofm.export.packed import Packer, packed
from ahofm.families import Family
from ahofm.model import Model
from ahofm.model.scores import pit
from ahofm.orders import order_name

_POINTS, _TOP, _ROWS, _DOTS = 60, 30, 12, 600

_MOST_BYTES = 2_500_000
"""Of numbers in double precision; more of them are kept in single precision."""

NEGLIGIBLE = 1e-6
"""Share of a linear predictor's variance: up to it an interaction, or all of an order, counts as rounding."""


def content(fitted: Fitted, title: str, target: str) -> dict[str, Any]:
    """Everything that the page shows; a model without rows of training shows less."""
    model = model_of(fitted, band=True)
    training = training_of(fitted)
    table = None if training is None else training.table
    told = summary(fitted)
    labels = [None] if model.family.n_eta == 1 else list(model.classes or range(model.family.n_eta))
    shares = [variance_shares(model, linear_predictor=label) for label in labels]
    packer = Packer()
    evaluated = packed(describe(model, pure=True, mean=_mean(model.family)), packer)
    linear_predictors = evaluated["linear_predictors"]
    for label, one, own in zip(labels, linear_predictors, shares, strict=True):
        tops = top_interactions(model, _TOP, linear_predictor=label) if model.order > 1 else None
        names = list(model.encoder.names)
        one["name"] = "" if label is None else str(label)
        one["orders_share"] = {str(order): _short(share) for order, share in own.orders.items()}
        one["main"], one["each"] = _list(own.main), _list(own.each)
        one["top"] = [
            {"columns": [names.index(name) for name in term], "share": _short(share)}
            for term, share in zip(*((tops.terms, tops.shares) if tops else ((), ())), strict=True)
            if share > NEGLIGIBLE
        ]
        one["effects"] = [_effect(model, j, label) for j in range(len(names))]
    return {
        "title": title,
        "target": target,
        "family": repr(model.family),
        "mean": evaluated["mean"],
        "quadrature": evaluated["quadrature"],
        "curves": [{name: part for name, part in own.items() if name != "levels"} for own in evaluated["curves"]],
        "classes": None if model.classes is None else [str(label) for label in model.classes],
        "facts": _facts(model, told, max(order for own in shares for order in _orders(own.orders))),
        "columns": [_column(book, table, j) for j, book in enumerate(model.encoder.codebooks)],
        "linear_predictors": linear_predictors,
        "rows": [] if table is None else _rows(model, table),
        "diagnostics": None if training is None else _diagnostics(model, training),
        "fit": {
            "choices": [[choice.name, choice.value, choice.reason] for choice in model.choices],
            "columns": _fit_columns(told),
            "orders": _fit_orders(told),
            "validated": "" if told.validated is None else str(told.validated),
            "ended": f"{model.trace.solver}: {model.trace.reason.value}",
            "seconds": {name: _short(value) for name, value in model.trace.seconds.items()},
            "trace": [[record.iteration, _short(record.objective)] for record in model.trace.records],
            "version": version("ahofm"),
        },
        "warnings": list(told.warnings),
        "numbers": packer.text(_MOST_BYTES),
    }


def _mean(family: Family) -> str:
    """Of a family of a user's own with another mean, the page shows the linear predictor."""
    try:
        return mean_name(family)
    except TypeError:
        return "identity"


def _orders(shares: Mapping[int, float]) -> list[int]:
    """Those that are there: main effects, and interactions that are more than rounding."""
    return [order for order, share in shares.items() if order == 1 or share > NEGLIGIBLE]


def _facts(model: Model, told: Any, order: int) -> list[list[str]]:
    facts = []
    if told.deviance_explained is not None:
        facts.append([f"{told.deviance_explained:.1%}", "deviance explained in training"])
    if told.n_rows is not None:
        facts.append([f"{told.n_rows:,}", "rows"])
    facts.append([str(sum(book.size > 0 for book in model.encoder.codebooks)), "columns that vary"])
    facts.append([str(order), "highest order of interactions"] if order > 1 else ["no", "interactions"])
    if told.edf is not None:
        facts.append(
            [f"{1.0 + sum(float(own.sum()) for own in told.edf.values()):.0f}", "effective degrees of freedom"]
        )
    if told.dispersion is not None:
        facts.append([f"{told.dispersion:.4g}", "dispersion"])
    if told.pearson_dispersion is not None:
        facts.append([f"{told.pearson_dispersion:.3g}", "Pearson dispersion; 1 where the family's variance is right"])
    facts += [["edited", f"by hand: {edit}"] for edit in told.edits]
    return facts


def _column(book: Codebook, table: Table | None, j: int) -> dict[str, Any]:
    numbers = book.edges is not None
    values = book.support.values
    found: dict[str, Any] = {
        "name": book.name,
        "constant": book.size == 0,
        "numbers": numbers,
        "missing": bool(book.learns_missing),
    }
    if numbers:
        mass = book.support.mass / max(float(book.support.mass.sum()), np.finfo(float).tiny)
        middle = float(values[np.searchsorted(np.cumsum(mass), 0.5)]) if len(values) else 0.0
        whole = bool(book.support.exact and len(values) and (values == np.round(values)).all())
        found |= {"low": book.support.low, "high": book.support.high, "typical": middle, "whole": whole}
        if table is not None and book.size:
            column = table.columns[j][~np.isnan(table.columns[j])]
            few = whole and book.support.high - book.support.low < _POINTS  # a bar per number
            bins = int(book.support.high - book.support.low) + 1 if few else 40
            found["density"] = _list(np.histogram(column, bins, range=(book.support.low, book.support.high))[0])
    else:
        plain = is_numeric(values)
        found["levels"] = [f"{value:.10g}" if plain else str(value) for value in values.tolist()]
        if plain:
            found["values"] = values.tolist()
        found["typical"] = int(np.argmax(book.support.mass)) if len(values) else -1
        found["mass"] = _list(book.support.mass)
    return found


def _effect(model: Model, j: int, label: Any) -> dict[str, Any] | None:
    if model.encoder.codebooks[j].size == 0:
        return None
    found = effect(model, j, _POINTS, linear_predictor=label)
    parts = {
        "value": found.value,
        "low": found.low,
        "high": found.high,
        "allLow": found.all_low,
        "allHigh": found.all_high,
    }
    return {"x": found.grid[0].tolist()} | {name: None if part is None else _list(part) for name, part in parts.items()}


def _rows(model: Model, table: Table) -> list[list[Any]]:
    """A few rows of training, spread over the predictions."""
    few = table.take(np.random.default_rng(0).permutation(table.n_rows)[:2_000])
    order = np.argsort(model.eta(few)[:, 0], kind="stable")
    some = few.take(order[np.unique(np.linspace(0, len(order) - 1, _ROWS).astype(int))])
    return [[_cell(column[i]) for column in some.columns] for i in range(some.n_rows)]


def _cell(value: Any) -> Any:
    if value is None or (isinstance(value, (float, np.floating)) and np.isnan(value)):
        return None
    return float(value) if isinstance(value, (float, np.floating)) else str(value)


def _diagnostics(model: Model, training: TrainingRows) -> dict[str, Any] | None:
    """Of training rows; families without a distribution, and several classes, have none."""
    table, y, offset = training.table, training.y, training.offset
    rows = np.sort(np.random.default_rng(0).permutation(table.n_rows)[:20_000])
    some, target = table.take(rows), np.asarray(y, dtype=np.float64)[rows]
    shift = None if offset is None else np.asarray(offset)[rows]
    mean = model.mean(some, shift)
    if mean.ndim == 2:
        return None
    try:
        place = pit(model, some, target, 0, shift)
    except (NotImplementedError, ValueError):
        return None
    residual = stats.norm.ppf(np.clip(place, 1e-9, 1.0 - 1e-9))
    groups = np.array_split(np.argsort(mean, kind="stable"), min(12, len(mean)))
    dots = np.arange(0, len(rows), max(len(rows) // _DOTS, 1))
    ordered = np.sort(residual)[np.unique(np.linspace(0, len(residual) - 1, 200).astype(int))]
    at = (np.unique(np.linspace(0, len(residual) - 1, 200).astype(int)) + 0.5) / len(residual)
    return {
        "predicted": _list(mean[dots]),
        "residual": _list(residual[dots]),
        "normal": _list(stats.norm.ppf(at)),
        "ordered": _list(ordered),
        "calibration": [
            [
                _short(mean[group].mean()),
                _short(target[group].mean()),
                _short(1.96 * target[group].std() / np.sqrt(len(group))),
            ]
            for group in groups
        ],
    }


def _fit_columns(told: Any) -> list[list[str]]:
    head = ["column", "kind", "share", "main effect"]
    orders = list(told.edf or {})
    rows = [
        head
        + [f"edf, order {order_name(order)}" for order in orders]
        + (["p, main effect"] if told.p_main is not None else [])
    ]
    for j in np.argsort(-told.shares, kind="stable"):
        row = [told.columns[j], told.kinds[j], f"{told.shares[j]:.1%}", f"{told.main_shares[j]:.1%}"]
        row += [f"{told.edf[order][j]:.1f}" for order in orders]
        if told.p_main is not None:
            row.append(p_text(float(told.p_main[j])))
        rows.append(row)
    return rows


def _fit_orders(told: Any) -> list[list[str]]:
    gains = {gain.order: gain for gain in told.gains}
    rows = [["order", "share", "factors", *(["on validation rows"] if gains else [])]]
    for order, share in told.orders.items():
        rank = "" if order == 1 else str(told.ranks.get(order, 0))
        said = [str(gains[order]) if order in gains else ""] if gains else []
        rows.append([str(order), f"{share:.1%}", rank, *said])
    return rows


def _short(value: Any) -> float:
    return float(f"{float(value):.5g}")


def _list(values: Floats) -> list[float]:
    return [_short(value) for value in np.asarray(values).ravel()]

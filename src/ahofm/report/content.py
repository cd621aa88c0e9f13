"""Everything that the page shows, as plain numbers and text; ``schema.json`` says what each part is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np

from ahofm.columns.basis import Floats
from ahofm.columns.table import Table
from ahofm.explain import VarianceShares, checks, effect, summary, top_interactions, variance_shares
from ahofm.explain.arguments import Fitted, model_of, training_of
from ahofm.explain.assessment import assess
from ahofm.export.description import describe
from ahofm.export.means import Mean
from ahofm.export.packed import Packer, packed
from ahofm.model import Model
from ahofm.report.columns import described, grid, occupied
from ahofm.report.diagnostics import diagnostics
from ahofm.report.held_out import HeldOut, scores
from ahofm.report.interval import packed_band
from ahofm.report.made import documentation, facts, fit_columns, fit_orders, made
from ahofm.report.numbers import cell, listed, short
from ahofm.report.response import OTHER, known_mean, predictor_names, response

FORMAT, VERSION = "ahofm-report", 1
EVALUATED = ("model", "band", "numbers")
"""Parts with which the page evaluates the model; the others are what it shows."""

NOTHING = 1e-14
"""Standard deviation of a linear predictor relative to its size, up to which all effects are rounding."""

NEGLIGIBLE = 1e-6
"""Share of a linear predictor's variance: up to it an interaction, or all of an order, counts as rounding."""

_FOR_EVALUATOR = ("mean", "shift", "thresholds", "levels", "quadrature", "linear_predictors")
_TOP, _ROWS, _PAIRS = 30, 12, 150

_MOST_BYTES = 2_500_000
"""Of numbers in double precision; more of them are kept in single precision."""


def content(
    fitted: Fitted, title: str, target: str, command: str | None = None, rows: HeldOut | None = None
) -> dict[str, Any]:
    """Everything that the page shows; a model without rows shows less. Those not fitted are the rows of diagnostics."""
    model = model_of(fitted, band=True)
    training = training_of(fitted)
    table = None if training is None else training.table
    told = summary(fitted)
    labels = [None] if model.family.n_eta == 1 else list(model.classes or range(model.family.n_eta))
    shares = [variance_shares(model, linear_predictor=label) for label in labels]
    packer, mean = Packer(), known_mean(model.family)
    link = OTHER if mean is None else mean.name
    names = predictor_names(model.family, model.classes)
    predictors = [_predictor(model, *own) for own in zip(labels, names, shares, strict=True)]
    strongest = np.argsort(-sum((own.each * own.total for own in shares), np.zeros(1)), kind="stable").tolist()
    varying = [j for j in strongest if model.encoder.codebooks[j].size]
    assessed = None
    if not model.family.censored and (rows is not None or training is not None):
        assessed = assess(fitted) if rows is None else assess(model, rows.table, rows.y, rows.weight, rows.offset)
    exposed = assessed is not None and assessed.exposed
    scored = None if rows is None else {"rows": len(rows.y), "scores": scores(model, rows)}
    classes = model.family.n_eta > 1 and model.classes is not None
    return {
        "format": FORMAT,
        "version": VERSION,
        "title": title,
        "target": target,
        "link": link,
        "response": response(model.family),
        "exposed": exposed,
        "censored": model.family.censored,
        "documentation": documentation(),
        "classes": None if model.classes is None else [str(label) for label in model.classes],
        "start": _start(fitted, model) if classes else 0,
        "held_out": scored,
        "facts": facts(model, told, max(order for own in shares for order in _orders(own.orders)), scored),
        "checks": [
            {"code": one.code, "title": one.title, "passed": one.passed, "found": list(one.found)}
            | {"meaning": one.meaning, "remedy": one.remedy}
            for one in checks(fitted)
        ],
        "columns": [described(book, table, j) for j, book in enumerate(model.encoder.codebooks)],
        "predictors": predictors,
        "occupied": {} if table is None else occupied(model, table, _pairs(varying, predictors)),
        "rows": [] if rows is None and training is None else _rows(model, rows or training, classes),
        "diagnostics": None if assessed is None else diagnostics(assessed, varying, labels, held_out=rows is not None),
        "made": made(fitted, model, told, link, command, exposed=exposed),
        "fit": {
            "columns": fit_columns(told),
            "orders": fit_orders(told),
            "trace": [[record.iteration, short(record.objective)] for record in model.trace.records],
        },
        "model": _evaluated(model, mean, packer),
        "band": packed_band(model, packer),
        "numbers": packer.text(_MOST_BYTES),
    }


def shown(found: Mapping[str, Any]) -> dict[str, Any]:
    """The parts of the content that are shown: without the model itself."""
    return {name: part for name, part in found.items() if name not in EVALUATED}


def _start(fitted: Fitted, model: Model) -> int:
    """The class that the page begins with: that of most rows, or of the highest intercept."""
    training = training_of(fitted)
    if training is None:
        return int(np.argmax(_intercepts(model)))
    return int(np.argmax(np.bincount(np.asarray(training.y, dtype=np.intp), minlength=model.family.n_eta)))


def _evaluated(model: Model, mean: Mean | None, packer: Packer) -> dict[str, Any]:
    """What the evaluator takes; names and levels are with the columns, and labels of classes with the page."""
    found = packed(describe(model.without_repeated, pure=True, mean=mean or Mean("identity")), packer)
    curves = [{name: part for name, part in own.items() if name != "levels"} for own in found["curves"]]
    return {**{name: part for name, part in found.items() if name in _FOR_EVALUATOR}, "curves": curves}


def _orders(shares: Mapping[int, float]) -> list[int]:
    """Those that are there: main effects, and interactions that are more than rounding."""
    return [order for order, share in shares.items() if order == 1 or share > NEGLIGIBLE]


def _predictor(model: Model, label: Any, name: str, own: VarianceShares) -> dict[str, Any]:
    """One linear predictor: shares, standard deviations, strongest interactions, effects."""
    tops = top_interactions(model, _TOP, linear_predictor=label) if model.order > 1 else None
    names = list(model.encoder.names)
    ranked = [] if tops is None else zip(tops.terms, tops.shares, tops.std, strict=True)
    size = max([1.0 if model.dispersion is None else model.dispersion**0.5, *map(abs, _intercepts(model))])
    nothing = own.total <= (NOTHING * size) ** 2  # a constant
    if nothing:
        own = replace(own, main=np.zeros_like(own.main), each=np.zeros_like(own.each))
    return {
        "name": name,
        "orders": {str(order): short(share) for order, share in own.orders.items()},
        "main": listed(own.main),
        "each": listed(own.each),
        "std": listed(np.sqrt(np.maximum(own.each * own.total, 0.0))),
        "top": [
            {"columns": [names.index(name) for name in term], "share": short(share), "std": short(std)}
            for term, share, std in ranked
            if share > NEGLIGIBLE
        ],
        "effects": [_effect(model, j, label, nothing=nothing) for j in range(len(names))],
    }


def _intercepts(model: Model) -> list[float]:
    return [own.intercept for own in model.linear_predictors]


def _effect(model: Model, j: int, label: Any, *, nothing: bool) -> dict[str, Any] | None:
    book = model.encoder.codebooks[j]
    if book.size == 0:
        return None
    values = grid(book)
    found = effect(model, j, {j: values}, linear_predictor=label)
    parts: dict[str, Floats | None] = {
        "value": np.zeros_like(found.value) if nothing else found.value,
        "low": found.low,
        "high": found.high,
        "all_low": found.all_low,
        "all_high": found.all_high,
    }
    k = 0 if label is None else list(model.classes or range(model.family.n_eta)).index(label)
    edf = None if model.band is None else short(model.band.edf[k][1][j])
    found_parts = {name: None if part is None else listed(part) for name, part in parts.items()}
    return {"x": values.tolist(), "rows": listed(found.density[0]), "edf": edf} | found_parts


def _pairs(varying: list[int], predictors: list[dict[str, Any]]) -> list[tuple[int, int]]:
    """All pairs where they are few, otherwise those of the strongest interactions."""
    top = {pair for own in predictors for term in own["top"] for pair in combinations(sorted(term["columns"]), 2)}
    if not top:
        return []
    everything = list(combinations(sorted(varying), 2))
    return everything if len(everything) <= _PAIRS else sorted(top)


def _rows(model: Model, training: Any, classes: bool) -> list[dict[str, Any]]:
    """A few rows, of training or not fitted, spread over the predictions, with their targets."""
    table: Table = training.table
    some = np.random.default_rng(0).permutation(table.n_rows)[:2_000]
    offset = None if training.offset is None else np.asarray(training.offset, dtype=np.float64)
    eta = model.without_repeated.eta(table.take(some), None if offset is None else offset[some])
    order = np.argsort(eta[:, 0], kind="stable")
    chosen = some[order[np.unique(np.linspace(0, len(order) - 1, _ROWS).astype(int))]]
    found = []
    for i in chosen.tolist():
        target = float(np.asarray(training.y, dtype=np.float64)[i])
        label = model.classes is not None and (classes or target in (0.0, 1.0))
        found.append(
            {
                "number": i + 1,
                "cells": [cell(column[i]) for column in table.columns],
                "actual": str((model.classes or ())[int(target)]) if label else _actual(model, target),
                "offset": None if offset is None else listed(np.atleast_1d(offset[i])),
            }
        )
    return found


def _actual(model: Model, target: float) -> float | str:
    """A target as it is shown: a censored time is negative."""
    return f"more than {-target:.4g}" if model.family.censored and target < 0.0 else target

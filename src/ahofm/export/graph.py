"""A description as a graph of ONNX operators. Who keeps nodes and constants is for the caller to say."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from math import comb
from typing import Any, Protocol

import numpy as np

from ahofm.columns.basis import Floats
from ahofm.explain.contributions import MAX_TERMS
from ahofm.export.description import Description, LevelColumn
from ahofm.export.lookups import Lookup, level_lookup, node_lookup, number_lookup
from ahofm.orders import PRODUCT

OPSETS = {"": 17, "ai.onnx.ml": 3}
"""Versions of the operators that are used."""


class Keeper(Protocol):
    """Keeps the nodes and constants of a graph, and makes names for their results."""

    def node(self, kind: str, inputs: Sequence[str], **attributes: Any) -> str:
        """One more operator; the name of its result."""
        ...

    def constant(self, values: Any) -> str:
        """One more array; its name."""
        ...


class GraphWriter:
    """Writes a description, operator by operator; tensors of numbers are doubles.

    Parameters
    ----------
    description : Description
    keeper : Keeper
    cells : sequence of str
        Names of tensors of shape (n, 1), one for each column: doubles with NaN where missing, or text.
    missing : str
        Text that means missing.
    """

    def __init__(self, description: Description, keeper: Keeper, cells: Sequence[str], missing: str) -> None:
        self.description, self.keeper, self.missing = description, keeper, missing
        self.node, self.constant = keeper.node, keeper.constant
        self.count = len(description.labels)
        self.phi = {j: self._functions(j, cells[j]) for j in range(len(cells))}

    def _int(self, value: int) -> str:
        return self.constant(np.array([value], dtype=np.int64))

    def _sum(self, names: Sequence[str]) -> str:
        found = names[0]
        for name in names[1:]:
            found = self.node("Add", [found, name])
        return found

    # Functions of columns

    def _functions(self, j: int, cell: str) -> str:
        """Of shape (n, functions)."""
        column = self.description.columns[j]
        if isinstance(column, LevelColumn):
            return self._looked_up(level_lookup(column), self._level_code(column, cell), None)
        absent = self.node("IsNaN", [cell])
        raw = self.node("Where", [absent, self.constant(np.zeros((1, 1))), cell])
        x = raw if column.period is None else self._turn(raw, column.start, column.period)
        lookup = number_lookup(column)
        found = self._looked_up(lookup, self._code(x, absent, lookup), x)
        if column.nodes is None:
            return found
        lines = node_lookup(column.nodes)
        return self.node("Add", [found, self._looked_up(lines, self._code(raw, absent, lines), raw)])

    def _below(self, x: str, breaks: Floats) -> str:
        """How many breaks are at or below x: (n, 1) integers."""
        least = self.node("GreaterOrEqual", [x, self.constant(breaks[np.newaxis])])
        return self.node("ReduceSum", [self.node("Cast", [least], to=7), self._int(1)], keepdims=1)

    def _code(self, x: str, absent: str, lookup: Lookup) -> str:
        last = self.constant(np.array([[lookup.missing]], dtype=np.int64))
        if not len(lookup.breaks):
            return self.node("Cast", [absent], to=7)
        return self.node("Where", [absent, last, self._below(x, lookup.breaks)])

    def _level_code(self, column: LevelColumn, cell: str) -> str:
        last = len(column.levels)
        if column.text:
            if self.missing in column.levels:
                raise ValueError(
                    f"column {column.name!r} has the level {self.missing!r}, which would mean missing: "
                    "give another text as missing"
                )
            places = [*range(last), last]
            keys = [*column.levels, self.missing]
            return self.node(
                "LabelEncoder",
                [cell],
                domain="ai.onnx.ml",
                keys_strings=keys,
                values_int64s=places,
                default_int64=last + 1,
            )
        if not last:
            return self.node("Cast", [self.node("Not", [self.node("IsNaN", [cell])])], to=7)
        levels, absent = np.array(column.levels), self.node("IsNaN", [cell])
        one = self.constant(np.array([[1]], dtype=np.int64))
        at = self.node("Max", [self.node("Sub", [self._below(cell, levels), one]), self.constant(np.array([[0]]))])
        same = self.node("Equal", [self.node("Gather", [self.constant(levels), at]), cell])
        found = self.node("Where", [same, at, self.constant(np.array([[last + 1]]))])
        return self.node("Where", [absent, self.constant(np.array([[last]])), found])

    def _looked_up(self, lookup: Lookup, code: str, x: str | None) -> str:
        """Rows of the table by code, as polynomials in t by Horner's rule."""
        flat = self.node("Squeeze", [code, self._int(1)])
        powers = [
            self.node("Gather", [self.constant(lookup.powers[:, m]), flat]) for m in range(lookup.powers.shape[1])
        ]
        if x is None or len(powers) == 1:
            return powers[0]
        scaled = self.node("Mul", [x, self.node("Gather", [self.constant(lookup.scales), code])])
        t = self.node("Sub", [scaled, self.node("Gather", [self.constant(lookup.shifts), code])])
        found = powers[-1]
        for own in powers[-2::-1]:
            found = self.node("Add", [self.node("Mul", [found, t]), own])
        return found

    def _turn(self, x: str, start: float, period: float) -> str:
        """Share of a turn that has passed at x."""
        unit = self.constant(np.array([[period]]))
        part = self.node("Sub", [self._modulo(x, unit), self.constant(np.array([[np.mod(start, period)]]))])
        one = self.constant(np.ones((1, 1)))
        share = self._modulo(self.node("Div", [part, unit]), one)
        return self.node("Where", [self.node("Less", [share, one]), share, self.constant(np.zeros((1, 1)))])

    def _modulo(self, x: str, period: str) -> str:
        rest = self.node("Mod", [x, period], fmod=1)
        negative = self.node("Less", [rest, self.constant(np.zeros((1, 1)))])
        return self.node("Where", [negative, self.node("Add", [rest, period]), rest])

    def _part(self, j: int, start: int, stop: int) -> str:
        """Some functions of a column: (n, stop - start)."""
        return self.node("Slice", [self.phi[j], self._int(start), self._int(stop), self._int(1)])

    # Linear predictors and means

    def etas(self, offset: str | None) -> str:
        """Linear predictors: (n, linear predictors)."""
        parts = [self.constant(self.description.intercepts[np.newaxis])]
        parts += [self._part(j, 0, self.count) for j in self.phi]
        for group in self.description.groups:
            own = [self._part(j, group.first, group.first + group.rank) for j in self.phi]
            terms = self._products(own) if group.order == PRODUCT else self._prefixes(own, group.order)[-1][group.order]
            if terms is not None:
                parts.append(self.node("MatMul", [terms, self.constant(group.loadings.T)]))
        return self._sum(parts if offset is None else [*parts, offset])

    def _products(self, names: Sequence[str]) -> str:
        found = names[0]
        for name in names[1:]:
            found = self.node("Mul", [found, name])
        return found

    def _prefixes(self, names: Sequence[str], degree: int) -> list[list[str | None]]:
        """Elementary symmetric polynomials e_0 ... of the first 0, 1, ... columns; None where there are too few."""
        one = self.constant(np.ones((1, 1)))
        e: list[str | None] = [one, *([None] * degree)]
        found = [e]
        for own in names:
            before, e = e, [one]
            for q in range(1, degree + 1):
                last, lower = before[q], before[q - 1]
                product = None if lower is None else own if q == 1 else self.node("Mul", [own, lower])
                both = [name for name in (last, product) if name is not None]
                e.append(self._sum(both) if both else None)
            found.append(e)
        return found

    def mean(self, eta: str) -> str:
        """Of shape (n, 1), or probabilities of several classes (n, classes)."""
        if self.description.mean.name == "softmax":
            return self.node("Softmax", [eta], axis=1)
        first = eta if self.count == 1 else self._predictor(eta, 0)
        of_first = {
            "log": self._exponential,
            "logit": self._logistic,
            "inverse": self._reciprocal,
            "levels": self._expected_level,
        }
        if self.description.mean.name == "zero_inflated":
            return self._not_inflated(first, self._predictor(eta, 1))
        make = of_first.get(self.description.mean.name)
        return first if make is None else make(first)

    def _predictor(self, eta: str, k: int) -> str:
        return self.node("Slice", [eta, self._int(k), self._int(k + 1), self._int(1)])

    def _exponential(self, eta: str) -> str:
        shift = self.description.mean.shift
        return self.node("Exp", [self.node("Add", [eta, self.constant(np.array([[shift]]))]) if shift else eta])

    def _reciprocal(self, eta: str) -> str:
        valid = self.node("Greater", [eta, self.constant(np.zeros((1, 1)))])
        found = self.node("Div", [self.constant(np.ones((1, 1))), eta])
        return self.node("Where", [valid, found, self.constant(np.array([[np.nan]]))])

    def _expected_level(self, eta: str) -> str:
        own = self.description.mean
        above = self._logistic(self.node("Sub", [eta, self.constant(np.array([own.thresholds]))]))
        total = self.node("ReduceSum", [above, self._int(1)], keepdims=1)
        return self.node("Add", [total, self.constant(np.array([[float(own.low)]]))])

    def _logistic(self, eta: str) -> str:
        """By an exponential: the operator Sigmoid of ONNX Runtime loses digits of small probabilities."""
        one = self.constant(np.ones((1, 1)))
        return self.node("Div", [one, self.node("Add", [one, self.node("Exp", [self.node("Neg", [eta])])])])

    def _not_inflated(self, eta: str, zeros: str) -> str:
        """``exp(eta) / (1 + exp(zeros))``, without an exponential of large zeros."""
        positive = self.node("Max", [zeros, self.constant(np.zeros((1, 1)))])
        rest = self.node("Exp", [self.node("Neg", [self.node("Abs", [zeros])])])
        one = self.constant(np.ones((1, 1)))
        top = self.node("Exp", [self.node("Sub", [eta, positive])])
        return self.node("Div", [top, self.node("Add", [one, rest])])

    def ordinal_probabilities(self, eta: str) -> str:
        """Of shape (n, levels): differences of the probabilities of being at or below each threshold."""
        thresholds = np.array([self.description.mean.thresholds])
        below = self._logistic(self.node("Sub", [self.constant(thresholds), eta]))
        count = thresholds.shape[1]
        steps = np.eye(count, count + 1) - np.eye(count, count + 1, k=1)
        last = np.eye(1, count + 1, k=count)
        return self.node("Add", [self.node("MatMul", [below, self.constant(steps)]), self.constant(last)])

    # Contributions

    def shapley_values(self) -> str:
        """Of shape (n, linear predictors, columns)."""
        shares = {j: [self._part(j, 0, self.count)] for j in self.phi}
        for group in self.description.groups:
            own = [self._part(j, group.first, group.first + group.rank) for j in self.phi]
            if group.means is not None:
                nodes, weights = self.description.quadrature()
                for t, weight in zip(nodes, weights, strict=True):
                    self._add_products(group.means, own, float(t), weight * group.loadings, shares)
                continue
            d = group.order
            before, after = self._prefixes(own, d - 1), self._prefixes(own[::-1], d - 1)[::-1]
            loadings = self.constant(group.loadings.T / d)
            for j in self.phi:
                pairs = [(before[j][q], after[j + 1][d - 1 - q]) for q in range(d)]
                others = [self.node("Mul", [a, b]) for a, b in pairs if a is not None and b is not None]
                if others:
                    product = self.node("Mul", [own[j], self._sum(others)])
                    shares[j].append(self.node("MatMul", [product, loadings]))
        return self._stacked([self._sum(parts) for parts in shares.values()])

    def _add_products(
        self, means: Floats, own: Sequence[str], t: float, weights: Floats, shares: dict[int, list[str]]
    ) -> None:
        """Parts of product factors at one node of the integral, by products of the columns before and after each."""
        parts = [self.node("Sub", [name, self.constant(means[j][np.newaxis])]) for j, name in enumerate(own)]
        step = self.constant(np.array([[t]]))
        way = [
            self.node("Add", [self.node("Mul", [part, step]), self.constant(means[j][np.newaxis])])
            for j, part in enumerate(parts)
        ]
        after = [self.constant(np.ones((1, 1)))]
        for name in way[:0:-1]:
            after.append(self.node("Mul", [after[-1], name]))
        before, loadings = self.constant(np.ones((1, 1))), self.constant(weights.T)
        for j, part in enumerate(parts):
            others = self.node("Mul", [before, after[len(parts) - 1 - j]])
            shares[j].append(self.node("MatMul", [self.node("Mul", [part, others]), loadings]))
            before = self.node("Mul", [before, way[j]])

    def _stacked(self, names: Sequence[str]) -> str:
        last = [self.node("Unsqueeze", [name, self._int(2)]) for name in names]
        return self.node("Concat", last, axis=2)

    def terms(self) -> tuple[list[tuple[int, ...]], str]:
        """Sets of columns, and their terms of shape (n, linear predictors, sets)."""
        sets = term_sets(self.description)
        return sets, self._stacked([self._term(subset) for subset in sets])

    def _term(self, subset: tuple[int, ...]) -> str:
        parts = [self._part(subset[0], 0, self.count)] if len(subset) == 1 else []
        for group in self.description.groups:
            if group.means is None and group.order != len(subset):
                continue
            own = [self._part(j, group.first, group.first + group.rank) for j in subset]
            loadings = group.loadings
            if group.means is not None:
                rest = np.delete(group.means, list(subset), axis=0).prod(axis=0)
                loadings = loadings * rest
                own = [
                    self.node("Sub", [name, self.constant(group.means[j][np.newaxis])])
                    for name, j in zip(own, subset, strict=True)
                ]
            parts.append(self.node("MatMul", [self._products(own), self.constant(loadings.T)]))
        return self._sum(parts)


def term_sets(description: Description) -> list[tuple[int, ...]]:
    """Sets of columns that have terms; ValueError where these are too many."""
    used = description.varying
    orders = {1, *(group.order for group in description.groups if group.means is None)}
    if any(group.means is not None for group in description.groups):
        orders = set(range(1, len(used) + 1))
    count = sum(comb(len(used), order) for order in orders)
    if count > MAX_TERMS:
        raise ValueError(
            f"{count} terms a row, more than {MAX_TERMS}: contributions='columns' has one number per column"
        )
    return [subset for order in sorted(orders) for subset in combinations(used, order)]

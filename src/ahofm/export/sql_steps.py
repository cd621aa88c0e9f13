"""The steps of an SQL statement that read rows, and the tables of constants that they are joined to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ahofm.export.description import Column, Description, LevelColumn
from ahofm.export.lookups import Lookup, level_lookup, node_lookup, number_lookup
from ahofm.export.sql_dialects import Dialect, Kind
from ahofm.export.sql_text import code, nonzero, number, total


@dataclass
class Steps:
    """Common table expressions one after another: the rows of a table, their codes, and tables of constants.

    Attributes
    ----------
    description : Description
    dialect : Dialect
    kept : list of str
        Columns of the table that the result has too.
    contributions : bool
    steps : list of str
        The expressions so far.
    """

    description: Description
    dialect: Dialect
    kept: list[str]
    contributions: bool
    steps: list[str] = field(default_factory=list)

    @property
    def carried(self) -> list[str]:
        """What every step hands on as it is: kept columns, numbers, codes, the offset."""
        found = [f"k{at}" for at in range(len(self.kept))]
        for j in self.description.used:
            column = self.description.columns[j]
            found += [f"c{j}"] if isinstance(column, LevelColumn) else [f"x{j}", f"c{j}"]
            found += [f"h{j}"] if getattr(column, "nodes", None) is not None else []
        return [*found, "shift"]

    @property
    def etas(self) -> list[str]:
        """Linear predictors."""
        return [f"eta{k}" for k in range(len(self.description.labels))]

    @property
    def shares(self) -> list[str]:
        """Contributions of columns with an effect."""
        return [f"s{k}_{j}" for k in range(len(self.etas)) for j in self.description.used]

    def step(self, name: str, columns: Sequence[tuple[str, str]], source: str) -> None:
        """One more common table expression, of columns (name, expression)."""
        most = self.dialect.most_columns
        if most is not None and len(columns) > most:
            raise ValueError(
                f"{self.dialect.name} has up to {most} columns in a step, and this model needs {len(columns)}: "
                "export it to duckdb, or fit with fewer factors (rank, n_members=1)"
            )
        chosen = ",\n  ".join(own if name_of == own else f"{own} AS {name_of}" for name_of, own in columns)
        self.steps.append(self.dialect.step.format(name=name, columns=chosen, source=source))

    def read(self, source: str, offset: str | None, exposure: str | None) -> None:
        """Numbers, then codes."""
        columns = self.description.columns
        raw = [(f"k{at}", self.dialect.identifier(name)) for at, name in enumerate(self.kept)]
        raw += [(f"x{j}", self._cell(columns[j])) for j in self.description.used]
        raw.append(("shift", self._shift(offset, exposure)))
        self.step("ahofm_input", raw, source)
        coded = [(f"k{at}", f"k{at}") for at in range(len(self.kept))]
        joins = ["ahofm_input"]
        for j in self.description.used:
            column = columns[j]
            if isinstance(column, LevelColumn):
                joins.append(f"LEFT JOIN ahofm_levels_{j} ON ahofm_levels_{j}.cell{j} = ahofm_input.x{j}")
                last = len(column.levels)
                coded.append((f"c{j}", f"CASE WHEN x{j} IS NULL THEN {last} ELSE COALESCE(code{j}, {last + 1}) END"))
                self._put_levels(j, column)
                self._put(f"ahofm_curves_{j}", level_lookup(column), f"c{j}_", "code")
                continue
            lookup, x = number_lookup(column), f"x{j}"
            coded.append((x, f"COALESCE({x}, 0e0)"))
            coded.append((f"c{j}", f"CASE WHEN {x} IS NULL THEN {lookup.missing} ELSE {code(x, lookup.breaks)} END"))
            self._put(f"ahofm_curves_{j}", lookup, f"c{j}_", "code")
            if column.nodes is not None:
                lines = node_lookup(column.nodes)
                coded.append((f"h{j}", f"CASE WHEN {x} IS NULL THEN {lines.missing} ELSE {code(x, lines.breaks)} END"))
                self._put(f"ahofm_nodes_{j}", lines, f"h{j}_", "code")
        self.step("ahofm_codes", [*coded, ("shift", "shift")], "\n".join(joins))

    def start(self, value: int) -> str:
        """A double to begin with."""
        return f"CAST({value}e0 AS {self.dialect.double})"

    def _cell(self, column: Column) -> str:
        name = self.dialect.identifier(column.name)
        if column.text:
            return self.dialect.compared(name)
        cell = self.dialect.number_or_null(name)
        period = getattr(column, "period", None)
        return cell if period is None else self._turn(cell, getattr(column, "start", 0.0), period)

    def _shift(self, offset: str | None, exposure: str | None) -> str:
        own = self.dialect
        given = [] if offset is None else [f"CAST({own.identifier(offset)} AS {own.double})"]
        given += [] if exposure is None else [f"{own.log}(CAST({own.identifier(exposure)} AS {own.double}))"]
        return total(given) if given else self.start(0)

    @staticmethod
    def _turn(x: str, start: float, period: float) -> str:
        """Share of a turn that has passed."""
        whole = f"{x} - {number(period)} * FLOOR({x} / {number(period)})"
        share = f"(({whole}) - {number(np.mod(start, period))}) / {number(period)}"
        return f"{share} - FLOOR({share})"

    def _put_levels(self, j: int, column: LevelColumn) -> None:
        own = self.dialect
        texts = [level.rstrip(" ") for level in column.levels] if column.text and not own.blanks_count else []
        if len(set(texts)) < len(texts):
            raise ValueError(
                f"column {column.name!r} has levels that differ in blanks at their ends only, which are the same to "
                f"{own.name}; rename them"
            )
        written = [own.level(level) if column.text else number(level) for level in column.levels]
        rows = [[level, str(k)] for k, level in enumerate(written)] or [["NULL", "0"]]
        kinds: list[Kind] = ["text" if column.text else "number", "code"]
        self.steps.append(own.values(f"ahofm_levels_{j}", [f"cell{j}", f"code{j}"], rows, kinds))

    def _put(self, name: str, lookup: Lookup, prefix: str, key: str) -> None:
        """A table of constants: the code, scale and shift, and coefficients that are not all zero."""
        which = np.argwhere(nonzero(lookup.powers))
        names = [f"{prefix}{key}", f"{prefix}scale", f"{prefix}origin", *(f"{prefix}{m}_{f}" for m, f in which)]
        rows = [
            [str(k), *map(number, (lookup.scales[k], lookup.shifts[k], *lookup.powers[k][tuple(which.T)]))]
            for k in range(len(lookup.scales))
        ]
        most = self.dialect.most_columns
        if most is not None and len(names) > most:
            raise ValueError(f"{self.dialect.name} has up to {most} columns in a table, and {name} needs {len(names)}")
        kinds: list[Kind] = ["code"]
        kinds += ["number"] * (len(names) - 1)
        self.steps.append(self.dialect.values(name, names, rows, kinds))

    def joined(self, source: str, j: int) -> tuple[list[tuple[str, str]], str]:
        """The functions of a column as columns of a step, and what the step reads."""
        column = self.description.columns[j]
        joins = f"{source}\nLEFT JOIN ahofm_curves_{j} ON c{j}_code = c{j}"
        if isinstance(column, LevelColumn):
            terms = [
                self._horner(level_lookup(column), f"c{j}_", "0e0", f) for f in range(self.description.n_functions)
            ]
            return [(f"p{f}", own) for f, own in enumerate(terms)], joins
        parts = [(number_lookup(column), f"c{j}_")]
        if column.nodes is not None:
            parts.append((node_lookup(column.nodes), f"h{j}_"))
            joins += f"\nLEFT JOIN ahofm_nodes_{j} ON h{j}_code = h{j}"
        found = []
        for f in range(self.description.n_functions):
            own = [self._horner(lookup, prefix, f"x{j}", f) for lookup, prefix in parts]
            found.append((f"p{f}", " + ".join(own)))
        return found, joins

    @staticmethod
    def _horner(lookup: Lookup, prefix: str, x: str, f: int) -> str:
        t, found, there = f"({x} * {prefix}scale - {prefix}origin)", "", nonzero(lookup.powers)[:, f]
        for m in range(len(there) - 1, -1, -1):
            if found:
                found = f"({found}) * {t}"
            if there[m]:
                found = f"{found} + {prefix}{m}_{f}" if found else f"{prefix}{m}_{f}"
        return found or "0e0"

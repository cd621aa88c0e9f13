"""A model as one SQL statement.

The functions of every column are a table of constants, joined by the code of a value: its piece, its level, missing,
unseen. The statement goes from column to column and carries, for every factor, the elementary symmetric polynomials of
the columns so far. For contributions it goes once more, with those of all columns, and takes each column out again.
Every step is materialised: databases would otherwise put the expression of one step into the next, and these grow with
every column.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ahofm.explain.arguments import Fitted, model_of
from ahofm.export.description import Group, describe
from ahofm.export.packed import base
from ahofm.export.sql_dialects import dialect_of
from ahofm.export.sql_steps import Steps
from ahofm.export.sql_text import exponential, logistic, number, total, weighted
from ahofm.orders import PRODUCT


def to_sql(
    fitted: Fitted,
    *,
    table: str | Sequence[str] = "input",
    dialect: str = "postgres",
    keep: Sequence[str] | None = None,
    offset: str | None = None,
    exposure: str | None = None,
    contributions: bool = False,
) -> str:
    """Write a model as one SQL statement.

    Parameters
    ----------
    fitted : estimator or model
        Fitted.
    table : str or sequence of str, default "input"
        Where the rows are: a table, or its schema and its name. It has the columns of training by their names; NULL and
        NaN are missing.
    dialect : str, default "postgres"
        One of "postgres", "duckdb", "sqlite", "mysql" (MariaDB), "spark", "databricks", "clickhouse", "bigquery",
        "snowflake", "redshift", "trino", "athena" and "tsql" (SQL Server).
    keep : sequence of str, optional
        Columns of the table that the result has too, e.g. a key; by default those of the model. Rows come in any order.
    offset : str, optional
        Column of the table that is added to the linear predictor.
    exposure : str, optional
        Column of the table whose logarithm is added.
    contributions : bool, default False
        Whether the result has the base and a Shapley value for each column, of every linear predictor.

    Returns
    -------
    str
        A statement whose result has "prediction" (a number, or the label of a classifier), "probability ..." for every
        class or level in an order, and with contributions "base" and "contribution ...".

    Raises
    ------
    ValueError
        For another dialect, a model with more functions than a database has columns, a statement or names that are
        longer than it takes, or an offset of several classes.

    Examples
    --------
    >>> from ahofm.export import to_sql
    >>> statement = to_sql(model, table="fields", dialect="sqlite", keep=["id"])
    >>> statement.splitlines()[-1]
    'FROM ahofm_mean'
    """
    description = describe(model_of(fitted), pure=contributions)
    own = dialect_of(dialect)
    if (offset or exposure) and description.mean.name == "softmax":
        raise ValueError("offset and exposure are those of one linear predictor; a model of several classes has more")
    kept = list(description.names if keep is None else keep)
    source = ".".join(map(own.identifier, [table] if isinstance(table, str) else table))
    writer = _Writer(description, own, kept, contributions)
    writer.check_names()
    writer.read(source, offset, exposure)
    writer.forward()
    if contributions:
        writer.backward()
    statement = writer.finish()
    size, most = len(statement.encode()), own.longest_statement
    if most is not None and size > most:
        raise ValueError(
            f"the statement has {size} bytes, and {own.name} takes {most}: fit with fewer factors (rank, n_members=1), "
            "or export to ONNX or C"
        )
    return statement


class _Writer(Steps):
    """Writes a whole statement."""

    def check_names(self) -> None:
        """Names of results that are too long, or there twice."""
        names = [self.dialect.shown_name(name) for name in [*self.kept, *(name for name, _ in self._results())]]
        twice = [name for at, name in enumerate(names) if name in names[:at]]
        if twice:
            raise ValueError(f"keep: the result would have two columns named {twice[0]!r}; keep others, or rename it")
        most = self.dialect.longest_name
        long = [name for name in names if most is not None and len(name.encode()) > most]
        if long:
            raise ValueError(
                f"{self.dialect.name} has names of up to {most} bytes, and {long[0]!r} is longer; rename it"
            )

    # Forward: linear predictors

    def _states(self) -> list[tuple[str, str, str]]:
        """Names of states, their values before the first column, and after one more column."""
        found = [(eta, self.start(0), f"{eta} + p{k}") for k, eta in enumerate(self.etas)]
        for g, group in enumerate(self.description.groups):
            for f in range(group.rank):
                found += self._product_states(g, f) if group.order == PRODUCT else self._factor_states(g, f)
        return found

    def _factor_states(self, g: int, f: int) -> list[tuple[str, str, str]]:
        group, zero = self.description.groups[g], self.start(0)
        own, name = f"p{group.first + f}", f"e{g}_{f}_"
        return [
            (f"{name}{q}", zero, f"{name}{q} + {own}" + (f" * {name}{q - 1}" if q > 1 else ""))
            for q in range(1, group.order + 1)
        ]

    def _product_states(self, g: int, f: int) -> list[tuple[str, str, str]]:
        """The product; for contributions also, at each node, that of all factors but zeros, and how many zeros."""
        own, one = f"p{self.description.groups[g].first + f}", self.start(1)
        found = [(f"e{g}_{f}", one, f"e{g}_{f} * {own}")]
        for q in range(len(self.description.quadrature()[0]) if self.contributions else 0):
            name, at = f"n{g}_{f}_{q}", f"g{g}_{f}_{q}"
            found.append((name, one, f"{name} * CASE WHEN {at} = 0e0 THEN 1e0 ELSE {at} END"))
            found.append((f"z{g}_{f}_{q}", "0", f"z{g}_{f}_{q} + CASE WHEN {at} = 0e0 THEN 1 ELSE 0 END"))
        return found

    def _at_nodes(self, j: int) -> list[tuple[str, str]]:
        """Product functions on the way from their means to their values, at each node of the integral."""
        found = []
        for g, group in enumerate(self.description.groups):
            if group.means is None or not self.contributions:
                continue
            for f in range(group.rank):
                own, mean = f"p{group.first + f}", number(group.means[j, f])
                found += [
                    (f"g{g}_{f}_{q}", f"{mean} + {number(t)} * ({own} - ({mean}))")
                    for q, t in enumerate(self.description.quadrature()[0])
                ]
        return found

    def forward(self) -> None:
        """Column by column: functions of this column, and states with those before it."""
        states, source, names = self._states(), "ahofm_codes", [(name, name) for name in self.carried]
        before = [(name, start) for name, start, _ in states]
        for j in self._visited():
            functions, joined = self._functions(source, j)
            self.step(f"ahofm_at_{j}", [*names, *before, *functions], joined)
            source = f"ahofm_at_{j}"
            if self._at_nodes(j):
                handed = [(name, name) for name, *_ in [*states, *functions]]
                self.step(f"ahofm_path_{j}", [*names, *handed, *self._at_nodes(j)], source)
                source = f"ahofm_path_{j}"
            before = [(name, after) for name, _, after in states]
        self.step("ahofm_states", [*names, *before], source)
        etas = [(eta, self._eta(k)) for k, eta in enumerate(self.etas)]
        handed = [(name, name) for name, *_ in states[len(etas) :]] if self.contributions else []
        self.step("ahofm_etas", [*names, *handed, *etas], "ahofm_states")

    def _visited(self) -> Sequence[int]:
        """Columns with an effect; product factors count all columns."""
        products = any(group.means is not None for group in self.description.groups)
        return range(len(self.description.columns)) if products else self.description.used

    def _functions(self, source: str, j: int) -> tuple[list[tuple[str, str]], str]:
        if j in self.description.used:
            return self.joined(source, j)
        return [(f"p{f}", "0e0") for f in range(self.description.n_functions)], source

    def _eta(self, k: int) -> str:
        description = self.description
        pairs = [
            (group.loadings[k, f], f"e{g}_{f}" if group.order == PRODUCT else f"e{g}_{f}_{group.order}")
            for g, group in enumerate(description.groups)
            for f in range(group.rank)
        ]
        shift = ["shift"] if k == 0 else []
        return total([number(description.intercepts[k]), f"eta{k}", *weighted(pairs), *shift])

    # Backward: contributions

    def backward(self) -> None:
        """Column by column: what it has in every linear predictor, from the states of all columns."""
        groups = self.description.groups
        states = [name for name, *_ in self._states() if not name.startswith("eta")]
        names = [(name, name) for name in [*self.carried, *self.etas, *states]]
        source = "ahofm_etas"
        done: list[tuple[str, str]] = []
        due: list[tuple[str, str]] = []
        for j in self.description.used:
            functions, joined = self.joined(source, j)
            self.step(f"ahofm_again_{j}", [*names, *done, *due, *functions], joined)
            source, done = f"ahofm_again_{j}", [(name, name) for name, _ in [*done, *due]]
            if self._at_nodes(j):
                handed = [(name, name) for name, _ in [*done, *functions]]
                self.step(f"ahofm_again_path_{j}", [*names, *handed, *self._at_nodes(j)], source)
                source = f"ahofm_again_path_{j}"
            due = [(f"s{k}_{j}", self._share(k, j, groups)) for k in range(len(self.etas))]
        self.step("ahofm_shares", [*names, *done, *due], source)

    def _share(self, k: int, j: int, groups: Sequence[Group]) -> str:
        terms = [f"p{k}"]
        for g, group in enumerate(groups):
            for f in np.flatnonzero(group.loadings[k]).tolist():
                own, loading = f"p{group.first + f}", group.loadings[k, f]
                if group.means is not None:
                    mean = number(group.means[j, f])
                    terms += [
                        f"{number(weight * loading)} * ({own} - ({mean})) * {self._without(g, f, q)}"
                        for q, weight in enumerate(self.description.quadrature()[1])
                    ]
                    continue
                others = "1e0"  # of the other columns, by taking this one out of each order in turn
                for q in range(1, group.order):
                    others = f"(e{g}_{f}_{q} - {own} * {others})"
                terms.append(f"{number(loading / group.order)} * {own} * {others}")
        return total(terms)

    @staticmethod
    def _without(g: int, f: int, q: int) -> str:
        """The product of the other columns: divided only by what is not zero."""
        name, zeros, own = f"n{g}_{f}_{q}", f"z{g}_{f}_{q}", f"g{g}_{f}_{q}"
        once = f"WHEN {zeros} = 1 AND {own} = 0e0 THEN {name}"
        return f"CASE WHEN {zeros} = 0 THEN {name} / {own} {once} ELSE 0e0 END"

    # Means

    def finish(self) -> str:
        """The mean and what the result shows."""
        source = "ahofm_shares" if self.contributions else "ahofm_etas"
        shares = self.shares if self.contributions else []
        names = [(name, name) for name in [*(f"k{at}" for at in range(len(self.kept))), *shares]]
        if self.description.mean.name == "softmax":
            of_all = ("largest", self.dialect.largest(self.etas))
            self.step("ahofm_top", [*names, *((eta, eta) for eta in self.etas), of_all], source)
            odds = [(f"o{k}", exponential(f"({eta} - largest)")) for k, eta in enumerate(self.etas)]
            handed = [(name, name) for name in ("largest", *self.etas)]
            self.step("ahofm_odds", [*names, *handed, *odds], "ahofm_top")
            whole = total([name for name, _ in odds])
            means = [(f"mean{k}", f"o{k} / ({whole})") for k in range(len(odds))]
            self.step("ahofm_mean", [*names, *handed, *means], "ahofm_odds")
        else:
            below = [
                (f"below{k}", logistic(f"({number(at)} - eta0)"))
                for k, at in enumerate(self.description.mean.thresholds)
            ]
            self.step("ahofm_mean", [*names, ("mean0", self._mean()), *below], source)
        results = [*((name, f"k{at}") for at, name in enumerate(self.kept)), *self._results()]
        own = self.dialect
        shown = ",\n  ".join(f"{found} AS {own.identifier(own.shown_name(name))}" for name, found in results)
        return "WITH " + ",\n".join(self.steps) + f"\nSELECT\n  {shown}\nFROM ahofm_mean{own.ending}"

    def _mean(self) -> str:
        own = self.description.mean
        if own.name == "levels":
            return total([number(own.low), *(logistic(f"(eta0 - ({number(at)}))") for at in own.thresholds)])
        eta = f"(eta0 + {number(own.shift)})" if own.shift else "eta0"
        if own.name == "zero_inflated":
            eta = "(eta0 - CASE WHEN eta1 > 0e0 THEN eta1 ELSE 0e0 END)"
        power = f"CASE WHEN {eta} > 709.78e0 THEN {self.dialect.infinite} ELSE {exponential(eta)} END"
        return {
            "identity": eta,
            "log": power,
            "zero_inflated": f"{power} / (1e0 + {exponential('(-ABS(eta1))')})",
            "logit": logistic(eta),
            "inverse": f"CASE WHEN {eta} > 0e0 THEN 1e0 / {eta} ELSE NULL END",
        }[own.name]

    def _results(self) -> list[tuple[str, str]]:
        description = self.description
        found = [("prediction", self._prediction())]
        if description.classes is not None:
            two = description.mean.name != "softmax"
            means = ["1e0 - mean0", "mean0"] if two else [f"mean{k}" for k in range(len(self.etas))]
            found += list(zip(description.probabilities(), means, strict=True))
        if description.mean.levels:
            below = [f"below{k}" for k in range(len(description.mean.thresholds))]
            steps = [f"{high} - {low}" for low, high in zip(below, [*below[1:], "1e0"], strict=True)]
            found += list(zip(description.probabilities(), [below[0], *steps], strict=True))
        if self.contributions:
            for k, label in enumerate(description.labels):
                ending = f" ({label})" if len(description.labels) > 1 else ""
                found.append((f"base{ending}", number(base(description, k))))
                found += [
                    (f"contribution {name}{ending}", f"s{k}_{j}" if j in description.used else "0e0")
                    for j, name in enumerate(description.names)
                ]
        return found

    def _prediction(self) -> str:
        classes = self.description.classes
        if classes is None:
            return "mean0"
        plain = all(isinstance(label, (int, float)) and not isinstance(label, bool) for label in classes)
        labels = [repr(label) if plain else self.dialect.text(str(label)) for label in classes]
        if self.description.mean.name != "softmax":
            return f"CASE WHEN mean0 > 0.5e0 THEN {labels[1]} ELSE {labels[0]} END"
        cases = " ".join(f"WHEN eta{k} = largest THEN {label}" for k, label in enumerate(labels[:-1]))
        return f"CASE {cases} ELSE {labels[-1]} END"

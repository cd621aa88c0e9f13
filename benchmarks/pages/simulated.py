"""Tables of the simulations: estimation, prediction, scalability, speed."""

from __future__ import annotations

import numpy as np
import pandas as pd

from benchmarks.pages.read import markdown, short

VARIANTS = {"8 functions": 8, "20 functions": 20}
"""Of this library's fits: functions a column."""


def variant(table: pd.DataFrame, name: str) -> pd.DataFrame:
    """Fits of one variant."""
    return table[(table.method == "ahofm") & (table.basis.fillna(8) == VARIANTS[name])]


def estimation(table: pd.DataFrame, measure: str) -> str:
    """Means over replications; in brackets how many times mgcv's this library's is."""
    ranks = sorted(table["rank"].dropna().unique())
    rows = []
    for (problem, n), part in table.groupby(["problem", "n"]):
        exact = part.loc[part.method == "mgcv", measure]
        for name in VARIANTS:
            own = variant(part, name).groupby("rank")[measure].mean().reindex(ranks)
            cells = ["–" if np.isnan(value) else f"{short(value)} ({value / exact.mean():.2f})" for value in own]
            rows.append([problem, f"{n}", short(exact.mean()), name, *cells])
    return markdown(["surfaces", "rows", "mgcv", "ahofm", *[f"F = {rank:.0f}" for rank in ranks]], rows)


def scalability(table: pd.DataFrame) -> str:
    """Seconds, megabytes and error of every method, by size: means over replications."""
    part = table[table.problem == "pairs"]
    rows = []
    for (p, n), sizes in part.groupby(["p", "n"]):
        cells = [f"{p:.0f}", f"{n}"]
        for method in ("bam", "bam discrete"):
            cells.append(_cell(sizes[sizes.method == method]))
        for name in VARIANTS:
            cells.append(_cell(variant(sizes, name)))
        rows.append(cells)
    return markdown(["p", "n", "`bam`", "`bam`, discrete", *[f"ahofm, {name}" for name in VARIANTS]], rows)


def _cell(found: pd.DataFrame) -> str:
    if found.empty:
        return "–"
    if (found.status != "done").any():
        return str(found.status.iloc[0]).split(":")[0]
    mean = found[["cpu", "megabytes", "surfaces"]].astype(float).mean()
    return f"{short(mean.cpu)} s, {mean.megabytes:.0f} MB, {short(mean.surfaces)}"


def beyond(table: pd.DataFrame) -> str:
    """This library alone: seconds, megabytes, share of the mean's variance that is missed."""
    part = table[(table.problem == "chain") & (table["rank"] == 8)]
    columns = sorted(part.p.unique())
    rows = []
    for (n, order), sizes in part.groupby(["n", "order"]):
        by_p = sizes.set_index("p")
        cells = [_beyond_cell(by_p.loc[p]) if p in by_p.index else "–" for p in columns]
        rows.append([f"{n}", f"{order:.0f}", *cells])
    return markdown(["n", "order", *[f"p = {p:.0f}" for p in columns]], rows)


def _beyond_cell(one: pd.Series) -> str:
    if one.status != "done":
        return str(one.status).split(":")[0]
    return f"{short(one.cpu)} s, {one.megabytes:.0f} MB, {short(one.prediction / one.variance)}"


def exponents(table: pd.DataFrame) -> str:
    """Least-squares slopes of log seconds and log megabytes in the log of one size, the others as levels."""
    done = table[(table.status == "done") & (table.method == "ahofm")]
    pairs, chain = variant(done[done.problem == "pairs"], "8 functions"), done[done.problem == "chain"]
    usual = chain[chain["rank"] == 8]
    asked = [
        ("columns, 3 to 12, all pairs", pairs, "p", ["n"]),
        ("rows, 6,000 to 18,000, all pairs", pairs, "n", ["p"]),
        ("columns, 25 and more", usual, "p", ["n", "order"]),
        ("rows, 100,000 to 1,000,000", usual, "n", ["p", "order"]),
        ("order, 2 to 4", usual, "order", ["p", "n"]),
        ("rank, 4 to 32", chain[(chain.p == chain.p.min()) & (chain.n == chain.n.min())], "rank", ["order"]),
    ]
    rows = []
    for name, part, size, others in asked:
        found = [slope(part, size, others, measure) for measure in ("cpu", "megabytes")]
        rows.append([name, *[short(value) for value in found]])
    return markdown(["exponent in", "time", "memory"], rows)


def slope(part: pd.DataFrame, size: str, others: list[str], measure: str) -> float:
    """The exponent with which a measure grows, where at least two sizes share a level of the others."""
    logs = pd.DataFrame({"x": np.log(part[size].astype(float)), "y": np.log(part[measure].astype(float))})
    within = logs - logs.groupby([part[name] for name in others]).transform("mean")
    spread = float((within.x**2).sum())
    return float((within.x * within.y).sum()) / spread if spread > 0 else float("nan")


def speed(table: pd.DataFrame) -> str:
    """Seconds to fit and error; how many times this library's seconds."""
    return _race(table, "cpu", "error")


def predicting(table: pd.DataFrame) -> str:
    """Seconds to predict 100,000 rows."""
    return _race(table, "predict_seconds", None)


def _race(table: pd.DataFrame, measure: str, error: str | None) -> str:
    sizes = sorted(table.n.unique())
    own = table[table.method == "order 2"].set_index("n")
    rows = []
    for method in dict.fromkeys(table.method):
        cells = []
        for n in sizes:
            found = table[(table.method == method) & (table.n == n)]
            if found.empty or found.iloc[0].status != "done":
                cells.append("–" if found.empty else str(found.iloc[0].status).split(":")[0])
                continue
            one = found.iloc[0]
            text = f"{short(one[measure])} s"
            if method != "order 2" and n in own.index:
                text += f" ({short(one[measure] / own.loc[n, measure])}x)"
            cells.append(text if error is None else f"{text}, {short(one[error])}")
        rows.append(["ahofm, order 2" if method == "order 2" else method, *cells])
    return markdown(["", *[f"n = {n:.0f}" for n in sizes]], rows)

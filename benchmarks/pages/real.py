"""Tables of errors on real data."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy import stats

from benchmarks.experiments.ablation import MORE_SETS, PAPERS_SETS
from benchmarks.pages.read import markdown, short
from benchmarks.peers.methods import METHODS, OURS, PAPERS
from benchmarks.printed import PRINTED

OWN = "order 3"
"""What the library does when nothing is said."""

LEVEL = 0.05
TREES = ("LightGBM", "LightGBM stopped", "XGBoost", "XGBoost stopped")


def ablation(table: pd.DataFrame) -> str:
    """Methods by data sets: mean (sd) over splits, marks of paired tests against the default, the paper's mean."""
    rows = []
    for method in METHODS:
        cells = []
        for name in PAPERS_SETS:
            text = cell(table, name, method, "rmse")
            if method in PAPERS:
                text += f"; {short(PRINTED[name][method][0])}"
            cells.append(text)
        rows.append([label(method), *cells])
    return markdown(["", *PAPERS_SETS], rows)


def more(table: pd.DataFrame) -> str:
    """The larger sets, classes and counts."""
    measures = {name: ["rmse"] for name in MORE_SETS}
    measures |= {"bike counts": ["deviance"], "claims": ["deviance"], "adult": ["log_loss", "auroc"]}
    columns = [(name, measure) for name in MORE_SETS for measure in measures[name]]
    known = table[table.problem.isin(MORE_SETS)]
    rows = [
        [label(method), *[cell(table, name, method, measure) for name, measure in columns]]
        for method in METHODS
        if method in set(known.method)
    ]
    return markdown(["", *[f"{name}, {measure.replace('_', '-')}" for name, measure in columns]], rows)


def seconds(table: pd.DataFrame) -> str:
    """Mean seconds of one core to fit."""
    sets = [*PAPERS_SETS, *MORE_SETS]
    done = table[table.status == "done"].copy()
    done["spent"] = done["cpu"].fillna(done["seconds"])
    mean = done.pivot_table(index="method", columns="problem", values="spent")
    rows = []
    for method in METHODS:
        if method in mean.index:
            row = mean.loc[method]
            rows.append([label(method), *[short(row[name]) if name in row.index else "–" for name in sets]])
    return markdown(["", *sets], rows)


def verdict(table: pd.DataFrame) -> str:
    """The default beside the paper's best column, the best of the other boosted trees, and EBM, by data set."""
    rows = []
    for name in PAPERS_SETS:
        own = splits(table, name, OWN)
        if own.empty:
            continue
        method, (printed, _) = min(PRINTED[name].items(), key=lambda item: item[1][0])
        rivals = {tree: splits(table, name, tree) for tree in TREES}
        rivals = {tree: found for tree, found in rivals.items() if len(own.index.intersection(found.index))}
        best = min(rivals, key=lambda tree: float(rivals[tree].mean()), default="")
        row = [name, short(own.mean()), f"{short(printed)} ({method})", "yes" if own.mean() <= printed else "no"]
        row.append(f"{best} {_beside(own, rivals[best])}" if best else "–")
        ebm = splits(table, name, "EBM")
        row.append(_beside(own, ebm) if len(own.index.intersection(ebm.index)) else "–")
        rows.append(row)
    header = ["", "ahofm", "paper's best", "reached", "best of LightGBM, XGBoost; ahofm over it", "EBM; ahofm over it"]
    return markdown(header, rows)


def _beside(own: pd.Series, rival: pd.Series) -> str:
    """A rival's mean on the splits that both have, this library's as a multiple, the p-value of their difference."""
    both = own.index.intersection(rival.index)
    ratio = own[both].mean() / rival[both].mean()
    return f"{short(rival[both].mean())}; {ratio:.2f} ({len(both)} splits, p = {p_value(own, rival):.1g})"


def cell(table: pd.DataFrame, name: str, method: str, measure: str) -> str:
    """Mean (sd) over splits; a mark where the default is better (-) or worse (+) than it by a paired test."""
    found = splits(table, name, method, measure)
    if found.empty:
        return "–"
    mean = short(found.mean()) if measure in ("rmse", "deviance") else f"{found.mean():.4f}"
    text = mean if len(found) == 1 else f"{mean} ({short(found.std())})"
    if method not in OURS and len(found) > 1:
        own = splits(table, name, OWN, measure)
        both = own.index.intersection(found.index)
        if len(both) > 1 and p_value(own, found) < LEVEL:
            lower = own[both].mean() < found[both].mean()
            text += " -" if lower != (measure == "auroc") else " +"
    return text


def splits(table: pd.DataFrame, name: str, method: str, measure: str = "rmse") -> pd.Series:
    """Errors by split."""
    if measure not in table:
        return pd.Series(dtype=np.float64)
    found = table[(table.problem == name) & (table.method == method) & (table.status == "done")]
    return found.set_index("split")[measure].dropna()


def p_value(one: pd.Series, other: pd.Series) -> float:
    """Of a paired t-test over the splits that both have; 1 where there are too few.

    Splits share most of their training rows, so the variance of the mean is that of Nadeau and Bengio (2003):
    1/splits + test rows/training rows in place of 1/splits.
    """
    both = one.index.intersection(other.index)
    if len(both) < 2:
        return 1.0
    difference = one[both] - other[both]
    spread = float(np.sqrt((1.0 / len(both) + 1.0 / 9.0) * difference.var()))
    if spread == 0.0:
        return 1.0
    return float(2.0 * stats.t.sf(abs(difference.mean()) / spread, len(both) - 1))


def label(method: str) -> str:
    """Of a line."""
    return f"ahofm, {method}" if method in OURS else method


def missing(table: pd.DataFrame, planned: Sequence[tuple[str, str]]) -> str:
    """Which methods have fewer splits than were planned, by data set."""
    wanted = pd.Series(planned).value_counts()
    found = table[table.status == "done"].groupby(["problem", "method"]).size()
    lines = []
    for (problem, method), count in wanted.items():
        has = int(found.get((problem, method), 0))
        if has < count:
            lines.append(f"{problem}: {label(method)} {has} of {count}")
    return "; ".join(sorted(lines)) + "." if lines else "All planned fits are there."

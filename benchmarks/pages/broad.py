"""The comparison on many data sets: wins, geometric means, mean ranks, seconds, and a critical-difference diagram."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats

from benchmarks.pages.read import markdown, short

OWN = "ahofm"
BOOSTERS = ("CatBoost", "LightGBM", "XGBoost")
"""Whose best default is the bar."""

GROUPS = {"gaussian": "numbers, RMSE", "binomial": "two classes, log-loss", "multinomial": "several classes, log-loss"}
ERROR = {"gaussian": "rmse", "binomial": "log_loss", "multinomial": "log_loss"}

LEVEL = 0.05


def means(table: pd.DataFrame, family: str, measure: str) -> pd.DataFrame:
    """Means over the splits that all methods have of a set: sets by methods."""
    done = table[(table.status == "done") & (table.family == family)]
    return done.pivot_table(index="problem", columns="method", values=measure)


def comparison(table: pd.DataFrame) -> str:
    """For each kind of target a table of errors, and what it comes to."""
    parts = []
    for family, title in GROUPS.items():
        if not (table.family == family).any():
            continue
        errors = means(table, family, ERROR[family])
        parts += [f"**{title}**", by_set(errors)]
        if OWN in errors.columns:
            parts.append(verdict(errors, means(table, family, "cpu")))
        if family != "gaussian":
            parts.append(calibration(means(table, family, "calibration")))
    return "\n\n".join(parts)


def by_set(errors: pd.DataFrame) -> str:
    """Errors, the least of a set in bold."""
    rows = []
    for name, row in errors.iterrows():
        least = row.min()
        cells = [f"**{short(value)}**" if value <= least else short(value) for value in row]
        rows.append([str(name).replace("_", " "), *cells])
    return markdown(["", *map(str, errors.columns)], rows)


def verdict(errors: pd.DataFrame, seconds: pd.DataFrame) -> str:
    """Wins and geometric means of this library's errors over those of the others, mean ranks and seconds."""
    rows = []
    own = errors[OWN]
    everywhere = errors.dropna(axis=1)
    ranks = everywhere.rank(axis=1).mean()
    others = {name: errors[name] for name in errors.columns if name != OWN}
    known = [name for name in BOOSTERS if name in errors.columns]
    if known:
        others[f"best of {', '.join(known)}"] = errors[known].min(axis=1)
    for name, theirs in others.items():
        both = own.notna() & theirs.notna() & (theirs > 0) & (own > 0)
        ratio = np.log(own[both] / theirs[both])
        spent = seconds[[OWN, name]].dropna() if name in seconds.columns else None
        rows.append(
            [
                name,
                f"{int((own[both] <= theirs[both]).sum())} of {int(both.sum())}",
                f"{np.exp(ratio.mean()):.3f}",
                short(ranks.get(name, np.nan)),
                "–" if spent is None else short(float(np.exp(np.log(spent[OWN] / spent[name]).mean()))),
            ]
        )
    head = [f"ahofm (mean rank {short(ranks[OWN])}) against", "at least as good", "errors, geometric mean"]
    return markdown([*head, "its mean rank", "our processor seconds over its"], rows)


def calibration(errors: pd.DataFrame) -> str:
    """Means of expected calibration errors over the sets that all methods have."""
    kept = errors.dropna(axis=1)
    return markdown(["", *map(str, kept.columns)], [["calibration error", *(short(value) for value in kept.mean())]])


def critical_differences(table: pd.DataFrame, path: Path) -> None:
    """Mean ranks over all sets that the methods share, with bars between those that Nemenyi's test does not part."""
    import matplotlib.pyplot as plt  # noqa: PLC0415 - only where figures are drawn

    parts = [means(table, family, ERROR[family]) for family in GROUPS if (table.family == family).any()]
    errors = pd.concat(parts).dropna(axis=1)
    if errors.shape[0] < 3 or errors.shape[1] < 3:
        return
    ranks = errors.rank(axis=1).mean().sort_values()
    count, sets = len(ranks), len(errors)
    critical = stats.studentized_range.ppf(1.0 - LEVEL, count, np.inf) / np.sqrt(2.0)
    critical *= np.sqrt(count * (count + 1) / (6.0 * sets))
    figure, axes = plt.subplots(figsize=(8.0, 0.9 + 0.32 * count))
    for place, (name, rank) in enumerate(ranks.items()):
        height = count - place  # the best has the longest stem: no other one crosses its name
        axes.plot([rank, rank], [0.0, height], color="0.6", lw=0.8)
        axes.text(rank + 0.04, height, f"{name} ({rank:.2f})", va="center", fontsize=9)
    for level, (first, last) in enumerate(cliques(ranks.to_numpy(), float(critical))):
        axes.plot([ranks.iloc[first], ranks.iloc[last]], [-0.35 - 0.3 * level] * 2, color="k", lw=3)
    axes.set_xlim(1.0, count + 0.5)
    axes.set_yticks([])
    axes.spines[["left", "right", "top"]].set_visible(False)
    axes.set_xlabel(f"mean rank over {sets} data sets (1 is best); bars: within {critical:.2f}, Nemenyi's test, 5 %")
    figure.tight_layout()
    figure.savefig(path, dpi=150)
    plt.close(figure)


def cliques(ranks: np.ndarray, critical: float) -> list[tuple[int, int]]:
    """First and last place of every longest run of sorted ranks that are within the critical difference."""
    found: list[tuple[int, int]] = []
    for first, rank in enumerate(ranks):
        last = int(np.searchsorted(ranks, rank + critical, side="right")) - 1
        if last > first and (not found or last > found[-1][1]):
            found.append((first, last))
    return found

"""Figures of the evidence, made from results alone."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd

mpl.use("Agg")

from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from benchmarks.experiments.estimation import unpacked
from benchmarks.pages.simulated import VARIANTS, variant
from benchmarks.surfaces import Design

BLUE, ORANGE, GREEN, GREY = "#3465a4", "#e07b00", "#2e8b57", "#777777"
RANK_COLOURS = {1: "#bcd2ee", 5: "#7ba6d9", 10: "#3465a4", 15: "#1b3a66"}


def contours(table: pd.DataFrame, path: Path) -> None:
    """The first surfaces: truth, mgcv, this library, at 2,000 rows of the first replication."""
    first = table[(table.problem == "general") & (table.n == 2000) & (table.split == 0)]
    fits = {
        "mgcv": first[first.method == "mgcv"],
        "ahofm, F = 15": first[first.setting.str.endswith("rank=15 basis=20")],
    }
    design = Design(5)
    truth = design.truth()
    shown = [pair for pair in design.pairs if f"grid {pair[0] + 1} {pair[1] + 1}" in table]
    figure, axes = plt.subplots(3, len(shown), figsize=(2.1 * len(shown), 6.2), sharex=True, sharey=True)
    for column, (i, j) in enumerate(shown):
        kept = {name: unpacked(fit.iloc[0][f"grid {i + 1} {j + 1}"]) for name, fit in fits.items()}
        surfaces = {"truth": truth[i, j], **kept}
        reach = np.abs(truth[i, j]).max() * 1.1
        for row, (name, surface) in enumerate(surfaces.items()):
            panel = axes[row, column]
            panel.contourf(
                design.nodes, design.nodes, surface.T, np.linspace(-reach, reach, 15), cmap="RdBu_r", extend="both"
            )
            panel.set_aspect("equal")
            if row == 0:
                panel.set_title(f"columns {i + 1} and {j + 1}", fontsize=10)
            else:
                error = np.mean((surface - truth[i, j]) ** 2)
                panel.text(0.03, 0.03, f"MSE {error:.3f}", transform=panel.transAxes, fontsize=8)
            if column == 0:
                panel.set_ylabel(name)
    _save(figure, path)


def differences(table: pd.DataFrame, path: Path) -> None:
    """Error of every surface minus mgcv's, by rank; panels are sizes and kinds of surfaces."""
    names = [name for name in table.columns if name.startswith("surface ")]
    ranks = sorted(table["rank"].dropna().unique())
    kinds, sizes = sorted(table.problem.unique()), sorted(table.n.unique())
    figure, axes = plt.subplots(len(kinds), len(sizes), figsize=(9.5, 5.6), sharex=True, sharey="row", squeeze=False)
    for row, kind in enumerate(kinds):
        for panel, n in zip(axes[row], sizes, strict=True):
            part = table[(table.problem == kind) & (table.n == n)]
            exact = part[part.method == "mgcv"].set_index("split")[names]
            for name, colour, shift in zip(VARIANTS, (BLUE, GREEN), (-0.15, 0.15), strict=True):
                own = variant(part, name)
                middle = []
                for rank in sorted(own["rank"].unique()):
                    place = ranks.index(rank)
                    gap = own[own["rank"] == rank].set_index("split")[names] - exact
                    values = gap.to_numpy().ravel()
                    values = values[~np.isnan(values)]
                    jitter = np.random.default_rng(0).uniform(-0.08, 0.08, len(values))
                    panel.plot(place + shift + jitter, values, ".", color=colour, alpha=0.25, markersize=3)
                    middle.append((place + shift, values.mean()))
                panel.plot(*np.transpose(middle), "o-", color=colour, markersize=5, label=name)
            panel.axhline(0.0, color=GREY, linewidth=0.8)
            panel.set_xticks(range(len(ranks)), [f"{rank:.0f}" for rank in ranks])
            panel.set_title(f"{kind}, n = {n}", fontsize=10)
            panel.set_yscale("symlog", linthresh=0.05)
        axes[row, 0].set_ylabel("MSE minus mgcv's")
    for panel in axes[-1]:
        panel.set_xlabel("F")
    axes[0, 0].legend(fontsize=8, frameon=False)
    _save(figure, path)


def predictions(table: pd.DataFrame, path: Path) -> None:
    """Error of the mean at new rows, by rows and rank; mgcv beside it."""
    kinds, sizes = sorted(table.problem.unique()), sorted(table.n.unique())
    usual = variant(table, "20 functions")
    figure, axes = plt.subplots(1, len(kinds), figsize=(9.5, 3.6), squeeze=False)
    for panel, kind in zip(axes[0], kinds, strict=True):
        part = table[(table.problem == kind) & ((table.method == "mgcv") | table.index.isin(usual.index))]
        for name, fits in part.groupby(part["rank"].fillna(0)):
            mean = fits.groupby("n").prediction.mean()
            colour = ORANGE if name == 0 else RANK_COLOURS[int(name)]
            panel.plot(mean.index, mean, "o-", color=colour, label="mgcv" if name == 0 else f"ahofm, F = {name:.0f}")
        panel.set(xscale="log", yscale="log", xlabel="rows", title=kind)
        panel.set_xticks(sizes, [f"{n}" for n in sizes])
        panel.set_yticks([0.3, 0.5, 1.0, 1.5], ["0.3", "0.5", "1", "1.5"])
        panel.minorticks_off()
    axes[0, 0].set_ylabel("MSE of the mean at new rows")
    axes[0, -1].legend(fontsize=8, frameon=False)
    _save(figure, path)


def scalability(table: pd.DataFrame, path: Path) -> None:
    """Seconds and megabytes against the number of columns; lines are methods, from thin to thick with the rows."""
    pairs = table[(table.problem == "pairs") & table.basis.isna()]
    figure, axes = plt.subplots(1, 3, figsize=(10.5, 3.8))
    colours = {"bam": ORANGE, "bam discrete": GREEN, "ahofm": BLUE}
    measures = {"cpu": "seconds of one core", "megabytes": "MB on top of the data", "surfaces": "MSE of surfaces"}
    for panel, (measure, label) in zip(axes, measures.items(), strict=True):
        for (method, n), fits in pairs.groupby(["method", "n"]):
            done = fits[fits.status == "done"].groupby("p", as_index=False)[list(measures)].mean()
            width = {6000: 0.8, 12000: 1.6, 18000: 2.6}.get(int(n), 1.2)
            name = method if n == pairs.n.min() else None
            panel.plot(done.p, done[measure], "o-", color=colours[method], linewidth=width, markersize=3, label=name)
        panel.set(xlabel="columns", ylabel=label, yscale="log")
        panel.set_xticks(sorted(pairs.p.unique()))
    axes[0].legend(
        fontsize=8, frameon=False, title=f"n = {', '.join(str(n) for n in sorted(pairs.n.unique()))}", title_fontsize=7
    )
    _save(figure, path)


def speed(table: pd.DataFrame, path: Path) -> None:
    """Seconds to fit against error; a line per method, a point per number of rows."""
    done = table[table.status == "done"]
    figure, panel = plt.subplots(figsize=(6.8, 4.4))
    for number, (method, unsorted) in enumerate(done.groupby("method", sort=False)):
        fits = unsorted.sort_values("n")
        own = method == "order 2"
        panel.plot(
            fits.cpu,
            fits.error,
            "o-",
            color=BLUE if own else f"C{number % 9 + 1}",
            linewidth=2.4 if own else 1.2,
            label="ahofm, order 2" if own else method,
        )
        for _, one in fits.iterrows():
            panel.annotate(
                f"$10^{{{np.log10(one.n):.0f}}}$",
                (one.cpu, one.error),
                fontsize=6,
                xytext=(3, 3),
                textcoords="offset points",
            )
    panel.set(xscale="log", yscale="log", xlabel="seconds of one core to fit", ylabel="RMSE of the mean at new rows")
    panel.legend(fontsize=8, frameon=False)
    _save(figure, path)


def _save(figure: Figure, path: Path) -> None:
    figure.tight_layout()
    figure.savefig(path, dpi=130, metadata={"Software": None})
    plt.close(figure)

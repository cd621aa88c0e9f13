"""From a table of mixed columns to a fitted, saved and reloaded model, on simulated data with a known truth.

Run with ``make demo``.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

import ahofm
from ahofm import AHOFMRegressor, Cyclic

NOISE = 0.3
OUT = Path("demo")


def simulate(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Temperature, hour, area, town (text), a column that means nothing; one pair interaction that matters."""
    temperature, hour = rng.normal(15.0, 8.0, n), rng.integers(0, 24, n)
    area, nothing = rng.exponential(1.0, n), rng.normal(size=n)
    town = rng.choice(["Aachen", "Bonn", "Celle"], n)
    X = np.empty((n, 5), dtype=object)
    for j, column in enumerate((temperature, hour, area, town, nothing)):
        X[:, j] = column.tolist()
    X[rng.random(n) < 0.05, 2] = None
    warm = (temperature - 15.0) / 8.0
    truth = np.sin(hour / 24.0 * 2 * np.pi) + 0.5 * np.tanh(warm) + 0.4 * (town == "Bonn")
    truth = truth + 1.2 * np.tanh(warm) * np.cos(hour / 24.0 * 2 * np.pi)
    return X, truth + NOISE * rng.normal(size=n), truth


def show(console: Console, title: str, header: list[str], rows: list[list[str]]) -> None:
    """Print a table."""
    table = Table(*header, title=title, title_justify="left")
    for row in rows:
        table.add_row(*row)
    console.print(table)


def main() -> None:
    """Simulate, fit once, compare every order on the way with the truth, save the model."""
    console, rng = Console(), np.random.default_rng(1)
    X, y, _ = simulate(20_000, rng)
    X_new, y_new, truth_new = simulate(5_000, rng)

    estimator = AHOFMRegressor(columns={1: Cyclic(period=24)}, random_state=0, verbose=1).fit(X, y)
    model, rows, result = estimator.model_, [], {}
    for order in (1, 2, 3):
        part = model.at_order(order)
        error = float(np.sqrt(np.mean((part.predict(X_new) - truth_new) ** 2)))
        result[f"order {order}"] = error
        rows.append([str(order), f"{error:.3f}", f"{part.deviance_explained(X_new, y_new):.3f}"])

    books = [book.describe() for book in model.encoder.codebooks]
    header = ["column", "kind", "codes", "functions", "missing"]
    show(console, "What each column became", header, [[f"{book[key]}" for key in header] for book in books])
    header = ["order", "error of the mean", "R^2"]
    show(console, "One fit to 20,000 rows with noise of 0.3, at every order, on 5,000 new rows", header, rows)
    show(console, "What the fit chose", ["", "choice", "why"], [[c.name, c.value, c.reason] for c in model.choices])
    removed = estimator.removed_
    console.print(f"Not needed: columns {list(removed.columns)}, orders {list(removed.orders)}.")
    console.print(
        f"Noise: {np.sqrt(model.dispersion):.3f} estimated. {sum(estimator.trace_.seconds.values()):.1f} seconds."
    )
    console.print(f"For scale: the truth has a standard deviation of {np.std(truth_new):.2f}; column x4 means nothing.")

    OUT.mkdir(exist_ok=True)
    path = OUT / "model.ahofm"
    model.save(path)
    same = np.array_equal(ahofm.load(path).predict(X_new), estimator.predict(X_new))
    (OUT / "result.json").write_text(json.dumps({"columns": books, "error": result}, indent=2) + "\n")
    console.print(f"\nThe model, saved and loaded, predicts {'the same' if same else 'SOMETHING ELSE'}.")
    console.print(f"Written to {OUT.resolve()}: model.ahofm, result.json", soft_wrap=True)


if __name__ == "__main__":
    main()

"""From a table of mixed columns to codes, a kernel and a first fit, on simulated data with a known truth.

Run with ``make demo``. The fit here is plain penalised least squares by L-BFGS with one fixed smoothing strength,
written out below to show how the parts meet; the estimators that choose all of that come later.
"""

from __future__ import annotations

import json
import time
from functools import partial
from itertools import accumulate
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from scipy.optimize import minimize

from ahofm.columns import Cyclic, Encoder
from ahofm.kernels import Chunk, NativeKernel, Tables
from ahofm.rows import ArraySource, ThreadExecutor, fold

RANK = 4
STRENGTH = 3.0
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


class Fit:
    """Coefficients <-> tables, and the penalised objective, for a model of order 1 or 2."""

    def __init__(self, encoder: Encoder, order: int) -> None:
        self.books, self.rank = encoder.codebooks, RANK if order == 2 else 0
        self.ends = list(accumulate(book.size * (1 + self.rank) for book in self.books))

    def coefficients(self, theta: np.ndarray) -> list[np.ndarray]:
        """Per column, (functions, 1 + rank): the main effect and the factors."""
        return [part.reshape(-1, 1 + self.rank) for part in np.split(theta[1:], self.ends[:-1])]

    def tables(self, theta: np.ndarray) -> Tables:
        """Every function at every code."""
        blocks = zip(self.books, self.coefficients(theta), strict=True)
        values = np.vstack([book.basis @ coef for book, coef in blocks])
        return Tables(float(theta[0]), values[:, 0], {2: values[:, 1:]} if self.rank else {})

    def objective(self, theta: np.ndarray, source: ArraySource) -> tuple[float, np.ndarray]:
        """Half the residual sum of squares plus the penalties, and its gradient."""
        task = partial(NativeKernel().value_and_gradient, predictors=[self.tables(theta)], loss="gaussian")
        sums = fold(task, source, ThreadExecutor())
        (slopes,) = sums.gradient
        by_code = np.column_stack([slopes.main, *slopes.factors.values()])
        value, gradient, start = sums.value, [np.array([slopes.intercept])], 0
        for book, coef in zip(self.books, self.coefficients(theta), strict=True):
            penalty = sum((p.matrix for p in book.penalties), start=0.05 * sp.eye_array(book.size, format="csr"))
            pull = STRENGTH * (penalty @ coef)
            value += 0.5 * float((coef * pull).sum())
            gradient.append((book.basis.T @ by_code[start : start + book.n_codes] + pull).ravel())
            start += book.n_codes
        return value, np.concatenate(gradient)

    def run(self, source: ArraySource, rng: np.random.Generator) -> np.ndarray:
        """Coefficients at the optimum."""
        start = np.concatenate([[0.0], 0.3 * rng.normal(size=self.ends[-1])])
        return minimize(self.objective, start, (source,), "L-BFGS-B", jac=True, options={"maxiter": 300}).x


def main() -> None:
    """Simulate, encode, fit two orders, compare with the truth, write it down."""
    rng = np.random.default_rng(1)
    X, y, _ = simulate(20_000, rng)
    X_new, _, truth_new = simulate(5_000, rng)

    encoder = Encoder.learn(X, {1: Cyclic()})
    codes = encoder.encode(X)
    print("What each column became:\n")
    print(f"{'column':>8} {'kind':>12} {'codes':>6} {'functions':>10} {'missing':>8}")
    for book in encoder.codebooks:
        row = book.describe()
        print(f"{row['column']:>8} {row['kind']:>12} {row['codes']:>6} {row['functions']:>10} {row['missing']:>8.0f}")

    source = ArraySource(codes, y)
    errors = {}
    print(f"\nFits to {len(y):,} rows with noise of {NOISE}; error of the predicted mean on 5,000 new rows:\n")
    for order in (1, 2):
        fit = Fit(encoder, order)
        begun = time.perf_counter()
        theta = fit.run(source, rng)
        seconds = time.perf_counter() - begun
        eta = NativeKernel().eta(Chunk(encoder.encode(X_new)), [fit.tables(theta)])[:, 0]
        errors[f"order {order}"] = float(np.sqrt(np.mean((eta - truth_new) ** 2)))
        print(f"  order {order}: {errors[f'order {order}']:.3f}   ({seconds:.2f} s)")
    spread = float(np.std(truth_new))
    print(f"  for scale, the truth itself has a standard deviation of {spread:.2f}")

    task = partial(NativeKernel().value_and_gradient, predictors=[fit.tables(theta)], loss="gaussian")
    begun, passes = time.perf_counter(), 0
    while time.perf_counter() - begun < 1.0:
        fold(task, source, ThreadExecutor())
        passes += 1
    rate = passes * len(y) / (time.perf_counter() - begun)
    print(f"\nGradient passes of the order-2 model: {rate / 1e6:.1f} million rows per second")

    OUT.mkdir(exist_ok=True)
    result = {"columns": [book.describe() for book in encoder.codebooks], "error": errors, "rows_per_second": rate}
    path = OUT / "result.json"
    path.write_text(json.dumps(result, indent=2) + "\n")
    print(f"\nWritten to {path.resolve()}")


if __name__ == "__main__":
    main()

"""Simulated tables of which every pair of columns has a surface, and how far fitted surfaces are off.

Ten surfaces of any shape, most of them no products of curves, or ten products of two curves; pairs take them in turn.
Surfaces are compared after purification, the true ones and the fitted ones: main effects and constants are taken out
under the marginals of the columns, so that no model is blamed for booking a main effect elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Literal, TypeAlias

import numpy as np
from scipy import stats

from ahofm.columns.basis import Floats

Pair: TypeAlias = tuple[int, int]
Surface: TypeAlias = Callable[[Floats, Floats], Floats]

NODES = 30
"""Points of a grid, per column, at equally likely quantiles: means over the grid are means under the marginals."""

SHAPES: Mapping[str, tuple[Surface, ...]] = {
    "general": (
        lambda x, y: 2.0 * x * y,
        lambda x, y: np.sin(3.0 * (x + y)),
        lambda x, y: np.exp(-3.0 * (x - y) ** 2),
        lambda x, y: np.sin(3.0 * x) * np.cos(3.0 * y),
        lambda x, y: np.tanh(4.0 * x * y),
        lambda x, y: np.cos(4.0 * np.hypot(x, y)),
        lambda x, y: x**2 * y,
        lambda x, y: np.exp(-4.0 * ((x + 0.4) ** 2 + (y + 0.3) ** 2)) + 0.8 * np.exp(-6.0 * ((x - 0.4) ** 2 + y**2)),
        lambda x, y: np.logaddexp(4.0 * x, -4.0 * y),
        lambda x, y: np.exp(-2.0 * x**2) * np.sin(2.0 * y),
    ),
    "products": (
        lambda x, y: 2.0 * x * y,
        lambda x, y: np.sin(3.0 * x) * np.cos(3.0 * y),
        lambda x, y: np.exp(-4.0 * x**2) * np.tanh(3.0 * y),
        lambda x, y: x**2 * y,
        lambda x, y: np.sin(4.0 * x) * y**2,
        lambda x, y: np.exp(x) * np.sin(3.0 * y),
        lambda x, y: np.tanh(3.0 * x) * np.tanh(3.0 * y),
        lambda x, y: np.cos(4.0 * x) * y,
        lambda x, y: np.exp(-2.0 * (x - 0.5) ** 2) * np.cos(3.0 * y),
        lambda x, y: np.exp(-2.0 * x**2) * np.sin(2.0 * y),
    ),
}


@dataclass(frozen=True)
class Design:
    """Columns, independent and uniform on (-1, 1) or standard normal, and a surface for each of their pairs.

    Attributes
    ----------
    p : int
    shapes : str
        A key of ``SHAPES``.
    features : "uniform" or "normal"
    snr : float
        Variance of the mean over that of the noise.
    """

    p: int
    shapes: str = "general"
    features: Literal["uniform", "normal"] = "uniform"
    snr: float = 0.5

    @property
    def pairs(self) -> list[Pair]:
        """All of them, in order."""
        return list(combinations(range(self.p), 2))

    @property
    def nodes(self) -> Floats:
        """Values of a column that are equally likely."""
        at = (np.arange(NODES) + 0.5) / NODES
        return 2.0 * at - 1.0 if self.features == "uniform" else np.asarray(stats.norm.ppf(at))

    def surface(self, number: int, x: Floats, y: Floats) -> Floats:
        """The surface of a pair, by the pair's number; of standard deviation 1 over the columns."""
        kind = SHAPES[self.shapes][number % len(SHAPES[self.shapes])]
        wide = 1.0 if self.features == "uniform" else 2.0  # most normal numbers are then within (-1, 1)
        grid = kind(*np.meshgrid(self.nodes / wide, self.nodes / wide, indexing="ij"))
        return np.asarray((kind(x / wide, y / wide) - grid.mean()) / grid.std())

    def mean(self, X: Floats) -> Floats:
        """The sum of all surfaces."""
        total = np.zeros(len(X))
        for number, (i, j) in enumerate(self.pairs):
            total += self.surface(number, X[:, i], X[:, j])
        return total

    def draw(self, n: int, seed: int) -> tuple[Floats, Floats, Floats]:
        """Columns, targets and their means."""
        rng = np.random.default_rng(seed)
        X = rng.uniform(-1.0, 1.0, (n, self.p)) if self.features == "uniform" else rng.normal(size=(n, self.p))
        mean = self.mean(X)
        return X, mean + rng.normal(scale=mean.std() / np.sqrt(self.snr), size=n), mean

    def truth(self) -> dict[Pair, Floats]:
        """The pure part of every surface on the grid of nodes."""
        grid = np.meshgrid(self.nodes, self.nodes, indexing="ij")
        return {pair: pure(self.surface(number, *grid)) for number, pair in enumerate(self.pairs)}

    def errors(self, surfaces: Mapping[Pair, Floats]) -> dict[Pair, float]:
        """Mean squared error of every fitted surface, purified, under the marginals."""
        truth = self.truth()
        return {pair: float(np.mean((pure(surfaces[pair]) - truth[pair]) ** 2)) for pair in truth}


def pure(surface: Floats) -> Floats:
    """A surface on a grid of equally likely nodes without its main effects and constant."""
    rows, columns = surface.mean(axis=1, keepdims=True), surface.mean(axis=0, keepdims=True)
    return np.asarray(surface - rows - columns + surface.mean())

"""Walks: differences of neighbouring codes, and a little the values themselves. A chain of small problems."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import eigvalsh_tridiagonal

from ahofm.columns.basis import Floats
from ahofm.fit.priors.base import Centring, Part, Posterior, with_constraints
from ahofm.kernels import chain


@dataclass(frozen=True)
class WalkPrior:
    """``steps * sum edge_b (value_{b+1} - value_b)^2 + sizes * sum value_b^2``: two strengths.

    Attributes
    ----------
    edges : array of shape (codes - 1,)
        Weight of each difference; 0 where the walk is interrupted, as before the code of missing values.
    mass : array of shape (codes,) or None
        Weights of the codes; functions then have mean zero.
    closed : float
        Weight of the difference between the last code of the walk and the first: 0 unless it goes round.
    """

    edges: Floats
    mass: Floats | None
    closed: float = 0.0

    n_groups = 2

    @property
    def bounds(self) -> tuple[Floats, Floats]:
        """Lowest and highest strengths."""
        return np.array([1e-3, 1e-6]), np.array([1e8, 1e8])

    @property
    def n_codes(self) -> int:
        """Number of codes."""
        return len(self.edges) + 1

    @cached_property
    def last(self) -> int:
        """The code where the walk ends."""
        interrupted = np.flatnonzero(self.edges == 0.0)
        return int(interrupted[0]) if len(interrupted) else len(self.edges)

    @cached_property
    def roughness(self) -> Floats:
        """Eigenvalues of the matrix of differences."""
        diagonal = np.append(self.edges, 0.0) + np.append(0.0, self.edges)
        if self.closed:
            matrix = np.diag(diagonal) - np.diag(self.edges, 1) - np.diag(self.edges, -1)
            ends = [0, self.last]
            matrix[ends, ends] += self.closed
            matrix[ends, ends[::-1]] -= self.closed
            values = np.linalg.eigvalsh(matrix)
        else:
            values = eigvalsh_tridiagonal(diagonal, -self.edges)
        values = np.asarray(np.maximum(values, 0.0), dtype=np.float64)
        return values if self.mass is None else values[1:]  # the constant is no function of mean zero

    def start(self, mean_square: float) -> Floats:
        """Strengths for functions of that mean square: a walk of B steps has B times the variance of a step."""
        return np.array([self.n_codes / mean_square, 0.5 / (mean_square * self.n_codes)])

    def solve(self, gram: Floats, rhs: Floats, strength: Floats) -> Posterior:
        """The posterior of K functions."""
        steps, sizes = strength
        right = with_constraints(rhs, self.mass)
        n_constraints = right.shape[2] - 1
        if self.closed:
            right = np.concatenate([right, self._around(rhs.shape[1])], axis=2)
        solved, variance, differences = chain(gram, right, self.edges, steps, sizes)
        if self.closed:
            solved, variance, differences = self._close(solved, variance, differences, steps)
        mean = solved[:, :, 0]
        if self.mass is not None:
            spread = solved[:, :, 1 : 1 + n_constraints]
            centring = Centring.of(self.mass, spread)
            mean = mean - spread @ centring.shift(mean)
            variance = np.maximum(variance - centring.removed(spread), 0.0)
            differences = differences - self.edges @ centring.removed(np.diff(spread, axis=0))
            if self.closed:
                differences = differences - self.closed * centring.removed(spread[self.last] - spread[0])
        prior = steps * self.roughness[:, np.newaxis] + sizes
        freedom = [
            steps * ((self.roughness[:, np.newaxis] / prior).sum(axis=0) - np.maximum(differences, 0.0)),
            sizes * ((1.0 / prior).sum(axis=0) - variance.sum(axis=0)),
        ]
        size = [self._steps_of(mean), (mean**2).sum(axis=0)]
        return Posterior(mean, variance, None, mean, np.array(freedom), np.array(size))

    def pull(self, part: Part, strength: Floats) -> Part:
        """Half the slope of the quadratic forms, times their strengths."""
        assert part.rough is not None
        values = part.rough
        slope = np.zeros_like(values)
        steps = self.edges[:, np.newaxis] * np.diff(values, axis=0)
        slope[1:] += steps
        slope[:-1] -= steps
        around = self.closed * (values[self.last] - values[0])
        slope[self.last] += around
        slope[0] -= around
        return Part(None, strength[0] * slope + strength[1] * values)

    def nothing(self, width: int) -> Part:
        """A walk that stays at zero."""
        return Part(None, np.zeros((self.n_codes, width)))

    def _steps_of(self, mean: Floats) -> Floats:
        around = self.closed * (mean[self.last] - mean[0]) ** 2
        return np.asarray(self.edges @ np.diff(mean, axis=0) ** 2 + around)

    def _around(self, width: int) -> Floats:
        """The difference of the two ends, as right-hand sides (codes, K, K)."""
        right = np.zeros((self.n_codes, width, width))
        right[0], right[self.last] = -np.eye(width), np.eye(width)
        return right

    def _close(
        self, solved: Floats, variance: Floats, differences: Floats, steps: Floats
    ) -> tuple[Floats, Floats, Floats]:
        """Add the step from the last code to the first: an update of rank K."""
        width = len(steps)
        rest, spread = solved[:, :, :-width], solved[:, :, -width:]
        across = spread[self.last] - spread[0]  # covariance of the K end differences
        inverse = np.linalg.inv(np.diag(1.0 / (steps * self.closed)) + 0.5 * (across + across.T))
        centring = Centring(np.empty(0), inverse)
        rest = rest - np.einsum("bfk,kl,lm->bfm", spread, inverse, rest[self.last] - rest[0])
        variance = variance - centring.removed(spread)
        differences = differences - self.edges @ centring.removed(np.diff(spread, axis=0))
        ends = np.diag(across) - centring.removed(across)
        return rest, variance, differences + self.closed * ends

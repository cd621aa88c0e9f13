"""First-order random walk over the codes, with a small ridge: a block tridiagonal problem, solved in linear time."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import eigvalsh_tridiagonal

from ahofm.columns.basis import Floats
from ahofm.kernels import chain
from ahofm.priors.base import Centring, Coefficients, FunctionPosterior, with_constraints
from ahofm.tuning import RANDOM_WALK_LAM


@dataclass(frozen=True)
class RandomWalkPrior:
    """Penalty ``lam_difference * sum_b edge_b (value_{b+1} - value_b)^2 + lam_value * sum_b value_b^2``.

    Attributes
    ----------
    edges : array of shape (codes - 1,)
        Weight of each squared difference; 0 where the random walk is interrupted, as before the code of missing values.
    mass : array of shape (codes,) or None
        Weights of the codes; functions then have mean zero.
    """

    edges: Floats
    mass: Floats | None

    n_groups = 2

    @property
    def bounds(self) -> tuple[Floats, Floats]:
        """Smallest and largest smoothing parameters."""
        return np.array(RANDOM_WALK_LAM[0]), np.array(RANDOM_WALK_LAM[1])

    @property
    def n_codes(self) -> int:
        """Number of codes."""
        return len(self.edges) + 1

    @cached_property
    def penalty_eigenvalues(self) -> Floats:
        """Eigenvalues of the matrix of squared differences."""
        if np.isin(self.edges, (0.0, 1.0)).all():  # paths of L codes have 4 sin^2(pi k / 2 L), k < L
            ends = np.flatnonzero(np.append(self.edges, 0.0) == 0.0) + 1
            lengths = np.diff(np.append(0, ends))
            paths = [4.0 * np.sin(0.5 * np.pi * np.arange(length) / length) ** 2 for length in lengths]
            values = np.sort(np.concatenate(paths))
        else:
            diagonal = np.append(self.edges, 0.0) + np.append(0.0, self.edges)
            values = np.asarray(np.maximum(eigvalsh_tridiagonal(diagonal, -self.edges), 0.0), dtype=np.float64)
        return values if self.mass is None else values[1:]  # the constant is no function of mean zero

    def initial_lam(self, mean_square: float) -> Floats:
        """Smoothing parameters for functions of that mean square: after B steps the variance is B times a step's."""
        return np.array([self.n_codes / mean_square, 0.5 / (mean_square * self.n_codes)])

    def solve(self, gram: Floats, rhs: Floats, lam: Floats) -> FunctionPosterior:
        """The posterior of K functions, with smoothing parameters (2, K)."""
        lam_difference, lam_value = lam
        right = with_constraints(rhs, self.mass)
        n_constraints = right.shape[2] - 1
        solved, variance, differences = chain(gram, right, self.edges, lam_difference, lam_value)
        mean = solved[:, :, 0]
        if self.mass is not None:
            U = solved[:, :, 1 : 1 + n_constraints]
            centring = Centring.of(self.mass, U)
            mean = mean - U @ centring.shift(mean)
            variance = np.maximum(variance - centring.reduction(U), 0.0)
            differences = differences - self.edges @ centring.reduction(np.diff(U, axis=0))
        prior = lam_difference * self.penalty_eigenvalues[:, np.newaxis] + lam_value
        edf = [
            lam_difference
            * ((self.penalty_eigenvalues[:, np.newaxis] / prior).sum(axis=0) - np.maximum(differences, 0.0)),
            lam_value * ((1.0 / prior).sum(axis=0) - variance.sum(axis=0)),
        ]
        quadratic_form = [self.edges @ np.diff(mean, axis=0) ** 2, (mean**2).sum(axis=0)]
        return FunctionPosterior(mean, variance, None, mean, np.array(edf), np.array(quadratic_form))

    def penalty_gradient(self, coef: Coefficients, lam: Floats) -> Coefficients:
        """Half the gradient of the penalty by each coefficient."""
        assert coef.per_code is not None
        values = coef.per_code
        slope = np.zeros_like(values)
        steps = self.edges[:, np.newaxis] * np.diff(values, axis=0)
        slope[1:] += steps
        slope[:-1] -= steps
        return Coefficients(None, lam[0] * slope + lam[1] * values)

    def zero_coefficients(self, width: int) -> Coefficients:
        """Values of zero at every code, for so many functions."""
        return Coefficients(None, np.zeros((self.n_codes, width)))

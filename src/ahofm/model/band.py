"""Uncertainty of the linear predictors: a Gaussian approximation around the fit, in a few coordinates of every
function.

With V the covariance of all coordinates, a quantity with derivatives J has variance J V J'. Derivatives are those of
the fit projected on the coordinates: the rough part of a factor is correlated with the noise of the rows it was fitted
to, and the step towards the data would be too large.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from ahofm.columns import Codes
from ahofm.columns.basis import Floats
from ahofm.kernels import Chunk, Tables
from ahofm.kernels.blas import one_blas_thread
from ahofm.model.beyond import Beyond
from ahofm.model.jacobian import Places, jacobian, places_of, rows_of, slopes, starts_of, tables_at
from ahofm.orders import PRODUCT, Orders

_ROWS = 2_000
"""Rows whose derivatives (rows, Q) are in memory at a time."""

_DRAWS = 2_000
"""Draws for simultaneous bands."""


@dataclass(frozen=True)
class Band:
    """Gaussian approximation of the uncertainty of the linear predictors.

    Attributes
    ----------
    mains, factors : tuples of arrays of shape (codes, coordinates), one per column
        Values of the coordinates of main effects and of factors; zero at the neutral code.
    ranks : dict of order to rank
    thetas : tuple of arrays of shape (P,), one per linear predictor
        Coordinates of the fit: the intercept, then by column those of its main effect and of its factors.
    roots : tuple of arrays of shape (Q, Q), one per linear predictor
        Lower triangles L with ``V = (L L')^-1``, of the Q coordinates that have correlations.
    shifts : tuple of arrays of shape (Q,)
        One Gauss–Newton step from the fit towards the data: minus an estimate of the fit's bias. For main effects it is
        the step with factors held fixed.
    edf : tuple of dicts of order to array of shape (columns,)
        Effective degrees of freedom of each linear predictor.
    concurvity : tuple of arrays of shape (columns, columns)
        Entry (i, j), for each linear predictor: share of the variation of main effect j at the training rows that a
        function of column i reproduces, mgcv's estimate of pairwise concurvity. Empty in files of version 1.
    tests : dict of column to float
        P-values of main effects (:mod:`ahofm.inference.tests_of_effects`). Empty in files of version 1.
    widths : tuple of float
        Multipliers of the standard errors of rows, in files that earlier versions wrote. Empty otherwise.
    loadings : tuple of dicts of order to array of shape (rank,), one per linear predictor
        Weights of the factors' terms, treated as known. Empty: ones, as in files before version 4.
    correlated : tuple of tuples of Q int, one per linear predictor
        Coordinates with correlations, in increasing order: the intercept, all of main effects, and those of factors
        with the largest effective degrees of freedom. Empty: all P of them, as in files before version 5.
    uncorrelated : tuple of arrays of shape (P,) or (0,), one per linear predictor
        Variances of the other coordinates, all of factors; 0 for those with correlations.
    row_shifts : tuple of arrays of shape (Q,)
        The joint step of all coordinates, used for rows. Empty: ``shifts``, as in files before version 5.
    product_means : tuple of arrays of shape (columns, rank of product factors), one per linear predictor
        Constants of product factors, treated as known. Empty where there are none.
    random_effects : tuple of dicts of column to array of shape (codes,), one per linear predictor
        Variances of main effects of levels without a coordinate; at the neutral code, of a level that training rows do
        not have. Empty in files before version 7.
    usual_std : tuple of float, one per linear predictor
        Standard error that nearly all rows of training are below. Empty in files before version 7.
    """

    mains: tuple[Floats, ...]
    factors: tuple[Floats, ...]
    ranks: Mapping[int, int]
    thetas: tuple[Floats, ...]
    roots: tuple[Floats, ...]
    shifts: tuple[Floats, ...]
    edf: tuple[Mapping[int, Floats], ...]
    concurvity: tuple[Floats, ...] = ()
    tests: Mapping[int, float] = field(default_factory=dict)
    widths: tuple[float, ...] = ()
    loadings: tuple[Mapping[int, Floats], ...] = ()
    correlated: tuple[tuple[int, ...], ...] = ()
    uncorrelated: tuple[Floats, ...] = ()
    row_shifts: tuple[Floats, ...] = ()
    product_means: tuple[Floats, ...] = ()
    random_effects: tuple[Mapping[int, Floats], ...] = ()
    usual_std: tuple[float, ...] = ()

    @one_blas_thread()
    def eta(self, codes: Codes, lines: Sequence[Mapping[int, Beyond]] = ()) -> Floats:
        """Standard errors (n, linear predictors) of each row's linear predictors; the bias is the joint step.

        ``lines`` are, for each linear predictor, columns whose main effects go on beyond the training range.
        """
        found = np.empty((codes.n_rows, len(self.thetas)))
        for k, theta in enumerate(self.thetas):
            loadings, means = self.loadings_of(k), self.means_of(k)
            tables = tables_at(theta, self.mains, self.factors, self.ranks, loadings, means)
            places, variances, shift = self._places(k), self._uncorrelated(k), (self.row_shifts or self.shifts)[k]
            for start in range(0, codes.n_rows, _ROWS):
                rows = slice(start, min(start + _ROWS, codes.n_rows))
                chunk = Chunk(codes.rows(rows.start, rows.stop))
                derivatives = jacobian(chunk, tables, self.mains, self.factors, places)
                for j, line in lines[k].items() if lines else ():
                    derivatives[:, places.main(j)] += line.of(rows)
                _, std = self.of(derivatives, k)
                others = self._uncorrelated_rows(chunk, tables, variances) + self._random_effect_rows(chunk, k)
                found[rows, k] = np.sqrt((derivatives @ shift) ** 2 + std**2 + others)
        return found * (self.widths or 1.0)

    def loadings_of(self, k: int) -> Mapping[int, Floats]:
        """Loadings (rank,) by order of a linear predictor."""
        return self.loadings[k] if self.loadings else Orders(self.ranks).ones()

    def means_of(self, k: int) -> Floats | None:
        """Constants of product factors of a linear predictor."""
        return self.product_means[k] if self.product_means else None

    def _interacts(self, order: int) -> bool:
        """Whether the model has interactions of ``order`` columns."""
        return order > 1 and (order in self.ranks or PRODUCT in self.ranks)

    def _places(self, k: int) -> Places:
        """Positions of the coordinates with correlations."""
        return self._all_places[k]

    @cached_property
    def _all_places(self) -> list[Places]:
        """The same for all linear predictors: they take as long as a term of one column, of which figures have many."""
        correlated = self.correlated or [None] * len(self.thetas)
        return [places_of(self.mains, self.factors, self.ranks, one) for one in correlated]

    def _uncorrelated(self, k: int) -> list[Floats]:
        """Variances (codes, factors) of each column's factors by the coordinates without correlations, if any."""
        if not self.uncorrelated or not len(self.uncorrelated[k]):
            return []
        starts = starts_of(self.mains, self.factors, self.ranks)
        return [values**2 @ self._block(self.uncorrelated[k], j, starts) for j, values in enumerate(self.factors)]

    def _uncorrelated_rows(self, chunk: Chunk, tables: Tables, of_columns: Sequence[Floats]) -> Floats:
        """Variances (n,) of rows by the coordinates without correlations."""
        total, rows = np.zeros(chunk.n_rows), rows_of(chunk)
        for j, (variances, codes) in enumerate(zip(of_columns, chunk.codes.columns, strict=False)):
            total += (variances[codes] * slopes(rows, tables, j) ** 2).sum(axis=1)
        return total

    def _random_effect_rows(self, chunk: Chunk, k: int) -> Floats:
        """Variances (n,) of rows by their levels without a coordinate."""
        total = np.zeros(chunk.n_rows)
        for j, variances in self._random_effects(k).items():
            total += variances[chunk.codes.columns[j]]
        return total

    def _random_effects(self, k: int) -> Mapping[int, Floats]:
        return self.random_effects[k] if self.random_effects else {}

    def std(self, derivatives: Floats, k: int = 0) -> Floats:
        """Standard errors of quantities with derivatives (n, Q) by the coordinates with correlations.

        The root of the mean squared error: variance plus squared bias, estimated by one step towards the data.
        """
        bias, std = self.of(derivatives, k)
        return np.asarray(np.hypot(bias, std))

    @one_blas_thread()
    def of(self, derivatives: Floats, k: int = 0) -> tuple[Floats, Floats]:
        """Minus the estimated bias (n,), and standard deviation (n,), of quantities with derivatives (n, Q)."""
        half = self._half(derivatives, k)
        return derivatives @ self.shifts[k], np.sqrt(np.einsum("ij,ij->j", half, half))

    @one_blas_thread()
    def reach(self, derivatives: Floats, level: float, k: int = 0, independent: Floats | float = 0.0) -> float:
        """Multiple of the standard errors that covers all quantities at once with probability ``level`` (simulated).

        ``independent`` (n,) are variances of parts of the quantities that are independent of all else.
        """
        half = self._half(derivatives, k)
        std = np.sqrt(np.einsum("ij,ij->j", half, half) + independent)
        half = half[:, std > 0.0] / std[std > 0.0]
        if not half.size:
            return 0.0
        apart = np.sqrt(np.broadcast_to(independent, std.shape)[std > 0.0]) / std[std > 0.0]
        if half.shape[1] < len(half):  # n quantities have a covariance of rank n at most
            values, vectors = np.linalg.eigh(half.T @ half)
            half = (vectors * np.sqrt(np.maximum(values, 0.0))).T
        draws = np.random.default_rng(0).normal(size=(_DRAWS, len(half)))
        if not apart.any():
            return float(np.quantile(np.abs(draws @ half).max(axis=1), level))
        rng = np.random.default_rng(1)
        largest = [np.abs(draw @ half + apart * rng.normal(size=len(apart))).max() for draw in draws]
        return float(np.quantile(largest, level))

    def _half(self, derivatives: Floats, k: int) -> Floats:
        """A matrix M with ``M'M = J V J'``: ``L^-1 J'`` or, where J has fewer nonzero columns than rows, one row each.

        A term has derivatives by the coordinates of its own columns only, and figures evaluate it at many points: it is
        then cheaper to solve for these coordinates than for the points.
        """
        used = np.flatnonzero(derivatives.any(axis=0))
        if len(used) == 0:
            return np.zeros((1, len(derivatives)))
        root = self.roots[k][used[0] :, used[0] :]  # entries before the first nonzero one stay zero
        if len(used) >= len(derivatives):
            return _solved(root, derivatives[:, used[0] :].T)
        upper = self._upper(k, used, root)
        columns = np.asfortranarray(derivatives[:, used].T)
        return np.asarray(scipy.linalg.blas.dtrmm(1.0, upper, columns, overwrite_b=1))

    def _upper(self, k: int, used: NDArray[np.intp], root: Floats) -> Floats:
        """The triangle R with ``R'R`` the covariance of some coordinates; kept, as chunks of rows use the same ones."""
        key = (k, used.tobytes())
        kept: tuple[tuple[int, bytes], Floats] | None = self.__dict__.get("_last_upper")
        if kept is None or kept[0] != key:
            units = np.zeros((len(root), len(used)))
            units[used - used[0], np.arange(len(used))] = 1.0
            kept = key, np.asfortranarray(np.linalg.qr(_solved(root, units), mode="r"))
            self.__dict__["_last_upper"] = kept  # as a cached property: not a field; the last one is enough for chunks
        return kept[1]

    def __getstate__(self) -> dict[str, object]:
        """The fields, without what is kept."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    @one_blas_thread()
    def term(
        self,
        columns: Sequence[int],
        codes: Sequence[NDArray[Any]],
        k: int = 0,
        lines: Mapping[int, Beyond] | None = None,
    ) -> Floats:
        """Derivatives (n, Q) of a main effect or an interaction of ``columns``, at codes (n,) of each of them.

        ``lines``: columns whose main effects go on beyond the training range.
        """
        places = self._places(k)
        out = np.zeros((len(codes[0]), places.starts[-1]))
        if len(columns) == 1:
            j = columns[0]
            out[:, places.main(j)] = self.mains[j][codes[0]]
            if lines and j in lines:
                out[:, places.main(j)] += lines[j].of(slice(None))
            return out
        if not self._interacts(len(columns)):
            return out
        for j, at, others in self._others(columns, codes, k):
            out[:, places.factors(j)] = self.factors[j][:, places.coordinate[j]][at] * others[:, places.factor[j]]
        return out

    def term_std(self, columns: Sequence[int], codes: Sequence[NDArray[Any]], k: int = 0) -> Floats:
        """Standard errors (n,) of the term of some columns at codes (n,) of each, by all coordinates and levels."""
        others = self.uncorrelated_variance(columns, codes, k) + self.random_effect_variance(columns, codes, k)
        return np.hypot(self.std(self.term(columns, codes, k), k), np.sqrt(others))

    def uncorrelated_variance(self, columns: Sequence[int], codes: Sequence[NDArray[Any]], k: int = 0) -> Floats:
        """Variances (n,) of the term of some columns by the coordinates without correlations."""
        total = np.zeros(len(codes[0]))
        if not self._interacts(len(columns)):  # before variances of all columns are worked out
            return total
        variances = self._uncorrelated(k)
        if variances:
            for j, at, others in self._others(columns, codes, k):
                total += (variances[j][at] * others**2).sum(axis=1)
        return total

    def random_effect_variance(self, columns: Sequence[int], codes: Sequence[NDArray[Any]], k: int = 0) -> Floats:
        """Variances (n,) of the term of some columns by levels without a coordinate: of main effects only."""
        if len(columns) > 1 or columns[0] not in self._random_effects(k):
            return np.zeros(len(codes[0]))
        return np.asarray(self._random_effects(k)[columns[0]][codes[0]])

    def _others(
        self, columns: Sequence[int], codes: Sequence[NDArray[Any]], k: int
    ) -> Iterator[tuple[int, NDArray[Any], Floats]]:
        """Each column of an interaction, its codes (n,), and the derivatives (n, factors) by its factors' values."""
        orders, loadings, means = Orders(self.ranks), self.loadings_of(k), self.means_of(k)
        weights = np.zeros(orders.n_factors)
        if len(columns) in orders:
            weights[orders.factor_slices[len(columns)]] = loadings[len(columns)]
        if means is not None:  # columns outside the set contribute their constants
            outside = np.delete(means, list(columns), axis=0).prod(axis=0)
            weights[orders.factor_slices[PRODUCT]] = loadings[PRODUCT] * outside
        starts = starts_of(self.mains, self.factors, self.ranks)
        values = [
            self.factors[j][at] @ self._block(self.thetas[k], j, starts) for j, at in zip(columns, codes, strict=True)
        ]
        for place, (j, at) in enumerate(zip(columns, codes, strict=True)):
            yield j, at, weights * np.prod(values[:place] + values[place + 1 :], axis=0)

    def _block(self, theta: Floats, column: int, starts: Sequence[int]) -> Floats:
        """Coordinates of a column's factors: (coordinates, factors)."""
        part = theta[starts[column] + self.mains[column].shape[1] : starts[column + 1]]
        return part.reshape(self.factors[column].shape[1], Orders(self.ranks).n_factors)


def _solved(root: Floats, right: Floats) -> Floats:
    return np.asarray(scipy.linalg.solve_triangular(root, right, lower=True, check_finite=False))

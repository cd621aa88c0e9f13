"""Rows of a variational fit on row states of a kernel: linear predictors, losses, working weights and responses."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import fields, replace

import numpy as np

from ahofm.backends.design import DesignRows, MainSums
from ahofm.backends.response import LossDerivatives, Response, Trial
from ahofm.backends.row_states import RowStates
from ahofm.columns.basis import Floats
from ahofm.families.links import quiet
from ahofm.kernels import BlockSums, ColumnMoments, RowStateKernel
from ahofm.kernels.symmetric import terms
from ahofm.rows import Executor, Source
from ahofm.tuning import MAJORANT_ETA
from ahofm.tuning.numerics import MAIN_WEIGHTS_CHANGE


class KernelWorkingRows:
    """See :class:`ahofm.backends.base.WorkingRows`.

    Attributes
    ----------
    response : Response
    use_majorant : bool
    derivatives : LossDerivatives
        Linear predictors (n, K) that were accepted, losses (n,), slopes and curvatures (n, K) there.
    variance : array of shape (n, K)
        Of the states.
    uncertain : array of shape (n, K)
        With that of main effects and tensor products: what is passed to losses that use variances.
    """

    def __init__(
        self, source: Source, executor: Executor, kernel: RowStateKernel, response: Response, design: DesignRows
    ) -> None:
        """Without states, main effects zero; ``evaluate`` comes first."""
        self.response, self.use_majorant = response, False
        self._source, self._executor, self._kernel, self._design = source, executor, kernel, design
        shape = (response.n_rows, response.family.n_eta)
        self._main = [np.zeros(shape[0]) for _ in range(shape[1])]
        self._states: list[RowStates | None] = [None] * shape[1]
        self._fits: list[tuple[Floats, Floats] | None] = [None] * shape[1]  # of states, until they change
        self._tried: tuple[LossDerivatives, Floats] | None = None
        # working weights of main effects with their sums, until the weights have changed too much
        self._weighted: list[tuple[Floats, MainSums] | None] = [None] * shape[1]
        self.variance = self.uncertain = np.zeros(shape)
        self.derivatives: LossDerivatives
        self._marked = self.variance

    def copy(self) -> KernelWorkingRows:
        """A copy without states; a backend may change the arrays of the original in place."""
        other = copy(self)
        other._main, other._tried = list(self._main), None
        derivatives = (getattr(self.derivatives, item.name).copy() for item in fields(LossDerivatives))
        other.derivatives = LossDerivatives(*derivatives)
        other.variance, other.uncertain = self.variance.copy(), self.uncertain.copy()
        other._states, other._fits = [None] * len(self._main), [None] * len(self._main)
        other._weighted = [None] * len(self._main)
        return other

    def set_main_effects(self, k: int, intercept: float, coef: Floats) -> None:
        """Other main effects."""
        self._main[k] = self._design.eta(intercept, coef)

    def set_columns(
        self, k: int, ranks: Mapping[int, int], moments: Sequence[ColumnMoments], loadings: Floats | None = None
    ) -> None:
        """A state from scratch."""
        self._fits[k] = self._states[k] = None  # their memory is needed
        state = self._states[k] = RowStates(self._source, self._executor, self._kernel, ranks, loadings)
        for column_moments in moments:
            state.add_column(column_moments)

    def swap(self, k: int, add: ColumnMoments | None, remove: ColumnMoments | None) -> BlockSums | None:
        """Add a column, then remove one and return its sums."""
        state, self._fits[k] = self._states[k], None
        if state is None:
            raise RuntimeError(f"linear predictor {k} has no state; set_columns makes one")
        if remove is not None:
            return state.swap_columns(add, remove)
        if add is not None:
            state.add_column(add)
        return None

    def linearise(self, k: int, *, majorant: bool = False) -> bool:
        """Working weights and responses, without main effects, for the state."""
        derivatives = self.derivatives
        if majorant:
            derivatives = self.response.majorised(derivatives, self.variance)
            if derivatives is self.derivatives:
                return False
        weight, weighted = self._working(derivatives, k)
        state = self._states[k]
        if state is not None:
            with quiet():  # sums that are not finite are found where they are used
                state.set_working_response(weight, weighted - weight * self._main[k])
        return True

    def main_sums(self, k: int) -> MainSums:
        """Sums for the main effects given the state.

        Working weights, with the Gram matrix at them, are those of an earlier call until they have changed by more than
        ``MAIN_WEIGHTS_CHANGE``. Slopes are always the present ones: steps lead to the same optimum.
        """
        weight, weighted = self._working(self.derivatives, k)
        mean = self._fitted(k)[0]
        if self.response.quadratic:
            return self._design.sums(weight, weight * (self.response.target - mean))
        earlier = self._weighted[k]
        with quiet():
            if earlier is not None and np.abs(weight - earlier[0]).sum() <= MAIN_WEIGHTS_CHANGE * earlier[1].total:
                weighted = weighted + (earlier[0] - weight) * self.derivatives.eta[:, k]
                return self._design.sums(earlier[0], weighted - earlier[0] * mean, earlier[1])
            found = self._design.sums(weight, weighted - weight * mean)
        self._weighted[k] = weight, found
        return found

    def evaluate(self, others: Floats | None = None) -> None:
        """Accept the linear predictors of states and main effects."""
        self._weighted = [None] * len(self._main)
        fits = [self._fitted(k) for k in range(len(self._main))]
        eta = np.stack([mean + main for (mean, _), main in zip(fits, self._main, strict=True)], axis=1)
        self.variance = np.stack([variance for _, variance in fits], axis=1)
        self.derivatives = self.response.derivatives(eta) if others is None else self._at(eta, None, others)

    def trial(self, k: int) -> Trial:
        """Losses if linear predictor k were accepted with its present state and main effects."""
        eta, variance = self.derivatives.eta.copy(), self.variance.copy()
        mean, variance[:, k] = self._fitted(k)
        eta[:, k] = mean + self._main[k]
        after = self.response.derivatives(eta, self.uncertain)
        self._tried = after, variance
        return self.response.trial(self.derivatives, after, k)

    def accept(self, others: Floats) -> None:
        """Accept the linear predictors of the last trial."""
        if self._tried is None:
            raise RuntimeError("nothing was tried; accept comes after trial")
        (after, self.variance), self._tried = self._tried, None
        self.derivatives = self._at(after.eta, None if self.response.uses_variance else after, others)

    def reject(self) -> None:
        """Discard the trial."""
        self._tried = None

    def loss(self) -> float:
        """Weighted mean loss."""
        return self.response.mean_of(self.derivatives.value)

    def dispersion(self) -> float:
        """Weighted mean of Pearson's squares and of variances."""
        response = self.response
        squares = response.family.pearson(response.y, response.shifted(self.derivatives.eta))
        with quiet():
            variance = np.where(self.variance == 0.0, 0.0, self.derivatives.curvature * self.variance)
        return response.mean_of(squares + variance.sum(axis=1))

    def information(self, k: int) -> float:
        """Sum of the working weights."""
        return float(self.response.weight @ self.derivatives.curvature[:, k])

    def gradient(self, k: int) -> Floats:
        """Negative gradient of the loss, over the sum of working weights."""
        return np.asarray(-self.response.weight * self.derivatives.slope[:, k] / self.information(k))

    def eta_std(self, k: int) -> float:
        """Weighted standard deviation of a linear predictor over the rows."""
        eta, response = self.derivatives.eta[:, k], self.response
        return float(np.sqrt(response.mean_of((eta - response.mean_of(eta)) ** 2)))

    def loss_along(self, k: int, order: int, factors: Sequence[Floats]) -> Callable[[float], float]:
        """Mean loss with so many times the terms of new factors."""
        added_by_chunk = []
        for index in range(self._source.n_chunks):
            columns = self._source.chunk(index).codes.columns
            values = np.stack([table[codes] for table, codes in zip(factors, columns, strict=True)])
            added_by_chunk.append(terms(values, order).sum(axis=1))
        term, before = np.concatenate(added_by_chunk), self.derivatives.eta

        def loss(times: float) -> float:
            eta = before.copy()
            eta[:, k] += times * term
            with quiet():
                return self.response.mean_of(self.response.derivatives(eta).value)

        return loss

    def keep_eta(self) -> None:
        """Remember the linear predictors."""
        self._marked = self.derivatives.eta.copy()

    def mean_squared_change(self) -> float:
        """Mean square of their change, weighted by curvatures."""
        square = self.derivatives.curvature * (self.derivatives.eta - self._marked) ** 2
        return self.response.mean_of(square.sum(axis=1))

    def learn_parameters(self, others: Floats) -> None:
        """The family's own parameters."""
        self._weighted = [None] * len(self._main)
        self.response = with_learned_family(self.response, self.derivatives.eta)
        self.derivatives = self._at(self.derivatives.eta, None, others)

    def _fitted(self, k: int) -> tuple[Floats, Floats]:
        """Mean and variance of each row in the state; zeros without one."""
        found, state = self._fits[k], self._states[k]
        if found is None:
            nothing = np.zeros(self.response.n_rows)
            found = self._fits[k] = (nothing, nothing) if state is None else state.fitted()
        return found

    def _working(self, derivatives: LossDerivatives, k: int) -> tuple[Floats, Floats]:
        """Working weights, and weighted working responses; of quadratic losses they never change."""
        response = self.response
        if response.quadratic:
            return response.weight, response.weight * response.target
        working = response.working_response(derivatives, k)
        return working.weight, working.weighted_response

    def _at(self, eta: Floats, derivatives: LossDerivatives | None, others: Floats) -> LossDerivatives:
        """Losses at linear predictors, with a family's majorant where its curvatures vanish."""
        if derivatives is None:
            self.uncertain = self._uncertainty(others)
            derivatives = self.response.derivatives(eta, self.uncertain)
        if self.response.quadratic:
            return derivatives
        if self.use_majorant or float(np.abs(eta).max(initial=0.0)) > MAJORANT_ETA:
            majorised = self.response.majorised(derivatives, self.variance)
            self.use_majorant = self.use_majorant or majorised is not derivatives
            return majorised
        return derivatives

    def _uncertainty(self, others: Floats) -> Floats:
        """Variances of linear predictors; those of smooth main effects are in inverse proportion to curvatures."""
        if not self.response.uses_variance:
            return self.variance
        with quiet():
            return np.asarray(self.variance + np.where(others == 0.0, 0.0, others / self.derivatives.curvature))


def with_learned_family(response: Response, eta: Floats) -> Response:
    """The response whose family has learned its own parameters at linear predictors (n, K)."""
    return replace(response, family=response.family.learned(response.y, response.shifted(eta), response.weight))

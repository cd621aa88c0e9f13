"""Coordinate ascent: the state of a variational fit, and one sweep over all columns.

1. Linearise: working weights and working responses at the current linear predictors (once, for least squares).
2. Remove a column from the row states and take its sums per code.
3. Solve its block under its prior; update its smoothing parameters.
4. Add the column again; test sufficient decrease, else damp, or use the family's majorant.
5. After all columns: intercept and smooth main effects jointly, smoothing parameters of pairs, the dispersion.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from ahofm.columns import Codes
from ahofm.columns.basis import Floats
from ahofm.families.links import quiet
from ahofm.fit.solvers.variational.engine import Engine
from ahofm.fit.solvers.variational.main_effects import AdditiveDesign, MainEffects
from ahofm.fit.solvers.variational.posterior import ColumnPosterior, FailedError, LinearPredictor, Posterior
from ahofm.fit.solvers.variational.row_states import RowStates
from ahofm.fit.solvers.variational.working import LossDerivatives, Response, WorkingResponse
from ahofm.kernels import BlockSums
from ahofm.priors.column import ColumnPriors
from ahofm.tuning import ADDITIVE_FIRST_STEPS, DAMPINGS, LARGE_ETA, LEAST_DISPERSION_RATIO


@dataclass
class VariationalState:
    """Everything that changes from sweep to sweep.

    Attributes
    ----------
    response : Response
        Its family changes when it has parameters of its own.
    additive : AdditiveDesign
    linear_predictors : list of LinearPredictor
    derivatives : LossDerivatives
        Of the losses at the linear predictors.
    variance : array of shape (n, K)
        Of the linear predictors, without that of smooth main effects.
    uncertain : array of shape (n, K)
        With it: what is passed to losses that use variances.
    noise : float
        The dispersion; 1 where it is known.
    use_majorant : bool
        Whether the family's majorant replaces curvatures, from now on.
    damped : int
        Number of steps without sufficient decrease.
    engine : Engine or None
        The same sweeps in compiled code.
    """

    response: Response
    additive: AdditiveDesign
    linear_predictors: list[LinearPredictor]
    derivatives: LossDerivatives
    variance: Floats
    uncertain: Floats
    noise: float = 1.0
    use_majorant: bool = False
    damped: int = 0
    engine: Engine | None = None

    @classmethod
    def start(cls, response: Response, additive: AdditiveDesign, columns: Sequence[ColumnPriors]) -> VariationalState:
        """Constants, then smooth main effects of all columns together."""
        posteriors = [Posterior(float(constant), additive.nothing(), (), {}) for constant in response.constants]
        if response.quadratic:
            posteriors[0] = replace(posteriors[0], smooth=additive.initial(response.target - posteriors[0].intercept))
        linear_predictors = [LinearPredictor(posterior, additive) for posterior in posteriors]
        eta = np.stack([linear_predictor.main_eta for linear_predictor in linear_predictors], axis=1)
        state = cls(
            response, additive, linear_predictors, response.derivatives(eta), np.zeros_like(eta), np.zeros_like(eta)
        )
        expected = 1.0
        if response.quadratic:
            square = 2.0 * response.mean_of(state.derivatives.value)
            state.noise, expected = max(square, 1e-9), 2.0 * square
        else:
            state._start_by_steps()
        for linear_predictor in linear_predictors:
            linear_predictor.blocks = [ColumnPosterior.empty(column, response.n_rows, expected) for column in columns]
        return state

    def copy(self) -> VariationalState:
        """As it is now, without the rows' states."""
        self.pull()
        linear_predictors = [
            LinearPredictor(linear_predictor.frozen(), self.additive) for linear_predictor in self.linear_predictors
        ]
        return replace(self, linear_predictors=linear_predictors, engine=None)

    def with_columns(self, columns: Sequence[ColumnPriors]) -> VariationalState:
        """A copy of main effects, to go on from with other priors of factors. It shares no array that changes."""
        state = self.copy()
        for linear_predictor in state.linear_predictors:
            linear_predictor.blocks = [
                block.with_column(column) for block, column in zip(linear_predictor.blocks, columns, strict=True)
            ]
        given = (getattr(self.derivatives, part.name).copy() for part in fields(LossDerivatives))
        state.derivatives, state.variance = LossDerivatives(*given), self.variance.copy()
        state.uncertain = self.uncertain.copy()
        return state

    def begin(self, codes: Codes, precision: str, n_threads: int) -> None:
        """Sweep in compiled code, from copies of the posteriors, once row states are built."""
        posteriors = [linear_predictor.frozen() for linear_predictor in self.linear_predictors]
        self.engine = Engine.of(codes, precision, self.response, self.additive, posteriors, self.derivatives)
        self.engine.native.careful, self.engine.native.threads = self.use_majorant, n_threads
        self.derivatives, self.variance = self.engine.derivatives, self.engine.variance

    def end(self) -> None:
        """Leave the engine, e.g. for more factors than it has."""
        self.pull()
        for linear_predictor in self.linear_predictors:
            linear_predictor.move(linear_predictor.posterior.intercept, linear_predictor.posterior.smooth)
        self.engine = None

    def pull(self) -> None:
        """Posteriors as the engine has them, where there is one."""
        if self.engine is not None:
            found = self.engine.posteriors([linear_predictor.frozen() for linear_predictor in self.linear_predictors])
            for linear_predictor, posterior in zip(self.linear_predictors, found, strict=True):
                linear_predictor.posterior, linear_predictor.blocks = posterior, list(posterior.blocks)

    def objective(self) -> float:
        """What falls from sweep to sweep: the noise variance, or the fraction of the loss that remains."""
        return self.noise if self.response.quadratic else self.response.remaining(self.derivatives)

    def reference(self) -> tuple[float, float]:
        """What a stage is compared with: the objective at its start, or that of constants, and the dispersion."""
        return max(self.objective(), 0.0 if self.response.quadratic else self.response.constants_remaining), self.noise

    def risen(self, reference: tuple[float, float], *, ends: bool = False) -> float:
        """Ratio of the objective to that reference or, on the way, of the dispersion if that has risen more."""
        with quiet():  # without a floor, objectives are nats per row: half the logarithm of a variance
            nats = self.response.floor is None
            difference = self.objective() - reference[0]
            ratio = np.exp(2.0 * difference) if nats else np.divide(self.objective(), reference[0])
            return float(ratio if ends else np.maximum(ratio, self.noise / reference[1]))

    def largest(self) -> float:
        """The largest value of any function."""
        if self.engine is not None:
            return float(self.engine.native.largest())
        return max(linear_predictor.largest for linear_predictor in self.linear_predictors)

    def build(self, rows: Callable[[LinearPredictor], RowStates], tempering: float) -> None:
        """Row states from scratch, with variances multiplied by the tempering."""
        if self.engine is not None:
            self.engine.build(tempering)
            return
        eta = self.derivatives.eta.copy()
        for k, linear_predictor in enumerate(self.linear_predictors):
            linear_predictor.build(rows(linear_predictor), tempering)
            if self.response.quadratic:
                linear_predictor.set_working_response(self._losses)
            else:
                eta[:, k], self.variance[:, k] = linear_predictor.fitted()
        if not self.response.quadratic:
            self.derivatives = self._at(eta)

    def sweep(self, *, learn: bool, backwards: bool, floor: float) -> None:
        """Visit all columns once, then main effects jointly, smoothing parameters of pairs, and the dispersion.

        The dispersion falls no lower than ``floor``.
        """
        if self.engine is not None:
            self._engine_sweep(learn=learn, learn_mains=True, backwards=backwards, floor=floor)
            return
        if self.response.quadratic:
            self._plain_sweep(learn=learn, backwards=backwards, learn_mains=True)
            variance = self.variance[:, 0]
        else:
            for k, linear_predictor in enumerate(self.linear_predictors):
                if k and not learn and self.response.uses_variance:
                    continue  # partners count as known, which would pass for a smaller standard deviation
                order = range(len(linear_predictor.blocks))
                for j in reversed(order) if backwards else order:
                    self._guarded(k, j, learn=learn)
                self._move_mains(k, linear_predictor.rows.fitted()[0])
            variance = (self.derivatives.curvature * self.variance).sum(axis=1)
        if learn:
            for k, linear_predictor in enumerate(self.linear_predictors):
                linear_predictor.learn_surfaces(self.information(k))
        if any(linear_predictor.posterior.surfaces is not None for linear_predictor in self.linear_predictors):
            floor = max(floor, LEAST_DISPERSION_RATIO * self.noise)
        self._update_dispersion(variance, floor)

    def settle(self, *, backwards: bool) -> None:
        """All columns once with smoothing parameters and dispersion as they are: towards the one optimum of that."""
        if self.engine is not None:
            noise = self.noise
            self._engine_sweep(learn=False, learn_mains=False, backwards=backwards, floor=0.0)
            self.noise = noise
        elif self.response.quadratic:
            self._plain_sweep(learn=False, backwards=backwards, learn_mains=False)
        else:
            for k, linear_predictor in enumerate(self.linear_predictors):
                order = range(len(linear_predictor.blocks))
                for j in reversed(order) if backwards else order:
                    self._guarded(k, j, learn=False)
                self._move_mains(k, linear_predictor.rows.fitted()[0], learn=False)

    def learn_parameters(self) -> None:
        """The family's own parameters, where it has any open."""
        response = self.response
        if response.family.open:
            family = response.family.learned(response.y, response.shifted(self.derivatives.eta), response.weight)
            self.response = replace(response, family=family)
            if self.engine is None:
                self.derivatives = self._at(self.derivatives.eta)
            else:
                self.engine.set_response(self.response)

    def _engine_sweep(self, *, learn: bool, learn_mains: bool, backwards: bool, floor: float) -> None:
        engine = self.engine
        assert engine is not None
        self.noise = engine.sweep(self.noise, learn=learn, learn_mains=learn_mains, backwards=backwards, floor=floor)
        self.use_majorant, self.damped = engine.native.careful, self.damped + engine.native.damped
        engine.native.damped = 0
        if self.response.family.dispersed and not self.response.quadratic:
            self.pull()
            if any(linear_predictor.posterior.surfaces is not None for linear_predictor in self.linear_predictors):
                floor = max(floor, LEAST_DISPERSION_RATIO * self.noise)
            self._update_dispersion((self.derivatives.curvature * self.variance).sum(axis=1), floor)

    @property
    def _losses(self) -> WorkingResponse:
        """Working response of quadratic losses."""
        return WorkingResponse(self.response.weight, self.response.weight * self.response.target)

    def _start_by_steps(self) -> None:
        nothing = np.zeros(self.response.n_rows)
        left = self.response.remaining(self.derivatives)
        for step in range(ADDITIVE_FIRST_STEPS):
            self._update_dispersion(nothing, floor=0.0)
            for k in range(len(self.linear_predictors)):
                self._move_mains(k, nothing)
            before, left = left, self.response.remaining(self.derivatives)
            if step > 5 and abs(left - before) < 1e-4:
                break

    def _plain_sweep(self, *, learn: bool, backwards: bool, learn_mains: bool) -> None:
        response, (linear_predictor,) = self.response, self.linear_predictors
        linear_predictor.sweep(self.noise, learn=learn, backwards=backwards)
        mean, self.variance[:, 0] = linear_predictor.rows.fitted()
        rest = WorkingResponse(response.weight, response.weight * (response.target - mean))
        linear_predictor.move(
            *self.additive.step(linear_predictor.posterior.smooth, rest, self.noise, learn=learn_mains)
        )
        linear_predictor.set_working_response(self._losses)
        self.derivatives = response.derivatives((mean + linear_predictor.main_eta)[:, np.newaxis])

    def _guarded(self, k: int, j: int, *, learn: bool) -> None:
        """One block of one linear predictor, with the least damping that gives sufficient decrease.

        A step without it is taken with the family's majorant instead, if it has one: every step of that decreases the
        loss.
        """
        linear_predictor, response = self.linear_predictors[k], self.response
        old, ranks = linear_predictor.blocks[j], list(linear_predictor.posterior.ranks.values())
        sums, bound, tensor_penalty = (
            self._sums(k, j, self.derivatives),
            self.derivatives,
            linear_predictor.tensor_penalty(j),
        )
        for damping in DAMPINGS:
            linear_predictor.blocks[j] = old.solved(
                sums, self.noise, ranks, learn=learn, damping=damping, tensor_penalty=tensor_penalty
            )
            if self._add_solved(k, j, unchecked=False):
                return
            self.damped += 1
            linear_predictor.take_back(j, old)
            bound = response.majorised(self.derivatives, self.variance)
            if bound is not self.derivatives:
                break
        if bound is self.derivatives:
            linear_predictor.blocks[j] = old.at_rest()
        else:
            linear_predictor.blocks[j] = old
            linear_predictor.rows.add_column(linear_predictor.moments(j))
            linear_predictor.blocks[j] = old.solved(
                self._sums(k, j, bound), self.noise, ranks, learn=learn, tensor_penalty=tensor_penalty
            )
        self._add_solved(k, j, unchecked=True)

    def _add_solved(self, k: int, j: int, *, unchecked: bool) -> bool:
        """Add a solved block to the row states; whether the step has sufficient decrease, and is taken."""
        linear_predictor = self.linear_predictors[k]
        linear_predictor.rows.add_column(linear_predictor.moments(j))
        eta, variance = self.derivatives.eta.copy(), self.variance.copy()
        eta[:, k], variance[:, k] = linear_predictor.fitted()
        after = self.response.derivatives(eta, self.uncertain)
        if unchecked or self._sufficient_decrease(after, k):
            self.variance = variance
            self.derivatives = self._at(eta, None if self.response.uses_variance else after)
            return True
        return False

    def _sums(self, k: int, j: int, derivatives: LossDerivatives) -> BlockSums:
        """Sums for one block, at the working response of linear predictor k."""
        linear_predictor = self.linear_predictors[k]
        linear_predictor.set_working_response(self.response.working_response(derivatives, k))
        return linear_predictor.rows.swap_columns(None, linear_predictor.moments(j))

    def _sufficient_decrease(self, after: LossDerivatives, k: int) -> bool:
        if self.use_majorant or self.response.family.curvature == "majorant":
            return bool(np.isfinite(after.value).all())
        return self.response.sufficient_decrease(self.derivatives, after, k)

    def _at(self, eta: Floats, derivatives: LossDerivatives | None = None) -> LossDerivatives:
        """Losses at linear predictors, with a family's majorant where its curvatures vanish."""
        if derivatives is None:
            self.uncertain = self._uncertainty()
            derivatives = self.response.derivatives(eta, self.uncertain)
        if self.use_majorant or float(np.abs(eta).max(initial=0.0)) > LARGE_ETA:
            majorised = self.response.majorised(derivatives, self.variance)
            self.use_majorant = self.use_majorant or majorised is not derivatives
            return majorised
        return derivatives

    def _uncertainty(self) -> Floats:
        """Variances of linear predictors; those of smooth main effects are in inverse proportion to curvatures."""
        if not self.response.uses_variance:
            return self.variance
        smooth = (
            np.array([self._variance_trace(linear_predictor) for linear_predictor in self.linear_predictors])
            / self.response.total
        )
        with quiet():
            return np.asarray(self.variance + np.where(smooth == 0.0, 0.0, smooth / self.derivatives.curvature))

    def _variance_trace(self, linear_predictor: LinearPredictor) -> float:
        return linear_predictor.variance_trace(self.noise, self.response.total)

    def information(self, k: int) -> float:
        """Information of the rows about linear predictor k: sum of working weights over dispersion."""
        return float(self.response.weight @ self.derivatives.curvature[:, k]) / self.noise

    def _move_mains(self, k: int, fitted: Floats, *, learn: bool = True) -> None:
        """Intercept and smooth main effects given the blocks; a step is halved until it has sufficient decrease."""
        linear_predictor, response = self.linear_predictors[k], self.response
        working_response = response.working_response(self.derivatives, k)
        if not float(working_response.weight.sum()) > np.finfo(float).tiny:
            return  # losses are flat, far from the targets: no direction to go
        rest = WorkingResponse(
            working_response.weight, working_response.weighted_response - working_response.weight * fitted
        )
        old = linear_predictor.posterior
        intercept, smooth = self.additive.step(old.smooth, rest, self.noise, learn=learn)
        step = 1.0
        for _ in range(8):
            coef = old.smooth.coef + step * (smooth.coef - old.smooth.coef)
            moved = old.intercept + step * (intercept - old.intercept)
            linear_predictor.move(moved, MainEffects(coef, smooth.lam, smooth.trace))
            eta = self.derivatives.eta.copy()
            eta[:, k] = fitted + linear_predictor.main_eta
            after = response.derivatives(eta, self.uncertain)
            if self._sufficient_decrease(after, k):
                self.derivatives = self._at(eta, None if response.uses_variance else after)
                return
            self.damped += 1
            step *= 0.5
        linear_predictor.move(old.intercept, old.smooth)

    def _update_dispersion(self, variance: Floats, floor: float) -> None:
        """Mean of squared residuals and of variances of linear predictors, where the dispersion is estimated."""
        response, family = self.response, self.response.family
        if not family.dispersed:
            return
        smooth = (
            sum(self._variance_trace(linear_predictor) for linear_predictor in self.linear_predictors) / response.total
        )
        squares = family.pearson(response.y, response.shifted(self.derivatives.eta))
        noise = response.mean_of(squares + variance) + smooth
        if not np.isfinite(noise):
            raise FailedError("the dispersion is not finite")
        self.noise = max(noise, floor, 1e-9)

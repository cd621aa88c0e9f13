"""A fit on its way: its predictors, the losses at them, the dispersion; and one sweep over all columns.

Where losses are parabolas, a column's exact solve is all there is to do. Where they are not, they are replaced by
parabolas before every block, and a step that they do not bear out is damped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ahofm.columns.basis import Floats
from ahofm.families.links import quiet
from ahofm.fit.priors.column import BlockColumn
from ahofm.fit.solvers.variational.column import Block, FailedError
from ahofm.fit.solvers.variational.main_effects import Additive, Smooth
from ahofm.fit.solvers.variational.posterior import Belief, Predictor
from ahofm.fit.solvers.variational.row_states import BlockRows
from ahofm.fit.solvers.variational.working import Parabolas, Response, Touch
from ahofm.kernels import BlockSums

_DAMPINGS = (0.0, 1.0, 4.0, 16.0, 64.0, 256.0)
"""Tried one after another until losses bear a step out."""

_FIRST_STEPS = 20
"""Of the additive fit that a member starts from."""

_FALL = 0.7
"""Of the dispersion: it falls no lower in a sweep while there are surfaces, whose strengths have to keep up with it."""

_CAREFUL = 20.0
"""From a predictor of that size on a family's own bounds replace curvatures, which have all but vanished."""


@dataclass
class State:
    """Everything that changes from sweep to sweep.

    Attributes
    ----------
    response : Response
        Its family changes when it has parameters of its own.
    additive : Additive
    predictors : list of Predictor
    touch : Touch
        Losses at the predictors.
    variance : array of shape (n, K)
        Of the predictors, without that of smooth main effects.
    uncertain : array of shape (n, K)
        With it: what losses were told, where they mind.
    noise : float
        The dispersion; 1 where it is known.
    careful : bool
        Whether the family's own bounds replace curvatures, from now on.
    damped : int
        Steps that were not borne out.
    """

    response: Response
    additive: Additive
    predictors: list[Predictor]
    touch: Touch
    variance: Floats
    uncertain: Floats
    noise: float = 1.0
    careful: bool = False
    damped: int = 0

    @classmethod
    def start(cls, response: Response, additive: Additive, columns: Sequence[BlockColumn]) -> State:
        """Constants, then smooth main effects of all columns together."""
        beliefs = [Belief(float(constant), additive.nothing(), (), {}) for constant in response.constants]
        if response.quadratic:
            beliefs[0] = replace(beliefs[0], smooth=additive.start(response.target - beliefs[0].intercept))
        predictors = [Predictor(belief, additive) for belief in beliefs]
        eta = np.stack([predictor.own_part for predictor in predictors], axis=1)
        state = cls(response, additive, predictors, response.touch(eta), np.zeros_like(eta), np.zeros_like(eta))
        expected = 1.0
        if response.quadratic:
            square = 2.0 * response.mean_of(state.touch.value)
            state.noise, expected = max(square, 1e-9), 2.0 * square
        else:
            state._start_by_steps()
        for predictor in predictors:
            predictor.blocks = [Block.empty(column, response.n_rows, expected) for column in columns]
        return state

    def copy(self) -> State:
        """As it is now, without the rows' states."""
        predictors = [Predictor(predictor.frozen(), self.additive) for predictor in self.predictors]
        return replace(self, predictors=predictors)

    def level(self) -> float:
        """What falls from sweep to sweep: the noise variance, or the share of the loss that is left."""
        return self.noise if self.response.quadratic else self.response.left(self.touch)

    def build(self, rows: Callable[[Predictor], BlockRows], share: float) -> None:
        """States of all rows from scratch."""
        eta = self.touch.eta.copy()
        for k, predictor in enumerate(self.predictors):
            predictor.build(rows(predictor), share)
            if self.response.quadratic:
                predictor.set_work(self._losses)
            else:
                eta[:, k], self.variance[:, k] = predictor.fitted()
        if not self.response.quadratic:
            self.touch = self._at(eta)

    def sweep(self, *, learn: bool, backwards: bool, floor: float) -> None:
        """All columns once, main effects jointly, strengths of pairs; then the dispersion, no lower than a floor."""
        if self.response.quadratic:
            self._plain_sweep(learn=learn, backwards=backwards, learn_mains=True)
            spread = self.variance[:, 0]
        else:
            for k, predictor in enumerate(self.predictors):
                if k and not learn and self.response.minds_variance:
                    continue  # partners are taken as known, which would be taken for a smaller spread
                order = range(len(predictor.blocks))
                for j in reversed(order) if backwards else order:
                    self._guarded(k, j, learn=learn)
                self._move_mains(k, predictor.rows.fitted()[0])
            spread = (self.touch.curvature * self.variance).sum(axis=1)
        if learn:
            for k, predictor in enumerate(self.predictors):
                predictor.learn_surfaces(self.information(k))
        if any(predictor.belief.surfaces is not None for predictor in self.predictors):
            floor = max(floor, _FALL * self.noise)
        self._update_dispersion(spread, floor)

    def settle(self, *, backwards: bool) -> None:
        """All columns once with smoothing parameters and dispersion as they are: towards the one optimum of that."""
        if self.response.quadratic:
            self._plain_sweep(learn=False, backwards=backwards, learn_mains=False)
        else:
            for k, predictor in enumerate(self.predictors):
                order = range(len(predictor.blocks))
                for j in reversed(order) if backwards else order:
                    self._guarded(k, j, learn=False)
                self._move_mains(k, predictor.rows.fitted()[0], learn=False)

    def learn_parameters(self) -> None:
        """The family's own parameters, where it has any open."""
        response = self.response
        if response.family.open:
            family = response.family.learned(response.y, response.shifted(self.touch.eta), response.weight)
            self.response = replace(response, family=family)
            self.touch = self._at(self.touch.eta)

    @property
    def _losses(self) -> Parabolas:
        """Of a quadratic response: the losses themselves."""
        return Parabolas(self.response.weight, self.response.weight * self.response.target)

    def _start_by_steps(self) -> None:
        nothing = np.zeros(self.response.n_rows)
        left = self.response.left(self.touch)
        for step in range(_FIRST_STEPS):
            self._update_dispersion(nothing, floor=0.0)
            for k in range(len(self.predictors)):
                self._move_mains(k, nothing)
            before, left = left, self.response.left(self.touch)
            if step > 5 and abs(left - before) < 1e-4:
                break

    def _plain_sweep(self, *, learn: bool, backwards: bool, learn_mains: bool) -> None:
        response, (predictor,) = self.response, self.predictors
        predictor.sweep(self.noise, learn=learn, backwards=backwards)
        mean, self.variance[:, 0] = predictor.rows.fitted()
        rest = Parabolas(response.weight, response.weight * (response.target - mean))
        predictor.move(*self.additive.step(predictor.belief.smooth, rest, self.noise, learn=learn_mains))
        predictor.set_work(self._losses)
        self.touch = response.touch((mean + predictor.own_part)[:, np.newaxis])

    def _guarded(self, k: int, j: int, *, learn: bool) -> None:
        """One block of one predictor, with as little damping as its losses bear.

        A step that goes wrong is taken with the family's own bounds instead, if it has any: they bear every step.
        """
        predictor, response = self.predictors[k], self.response
        old, ranks = predictor.blocks[j], list(predictor.belief.ranks.values())
        sums, bound, coupling = self._sums(k, j, self.touch), self.touch, predictor.coupling(j)
        for damping in _DAMPINGS:
            predictor.blocks[j] = old.solved(sums, self.noise, ranks, learn=learn, damping=damping, coupling=coupling)
            if self._put_in(k, j, borne=False):
                return
            self.damped += 1
            predictor.rows.exchange(None, predictor.moments(j))
            bound = response.careful(self.touch, self.variance)
            if bound is not self.touch:
                break
        if bound is self.touch:
            predictor.blocks[j] = old.at_rest()
        else:
            predictor.blocks[j] = old
            predictor.rows.put_in(predictor.moments(j))
            predictor.blocks[j] = old.solved(self._sums(k, j, bound), self.noise, ranks, learn=learn, coupling=coupling)
        self._put_in(k, j, borne=True)

    def _put_in(self, k: int, j: int, *, borne: bool) -> bool:
        """Put a solved block into the rows; whether losses bear the step, which is then taken."""
        predictor = self.predictors[k]
        predictor.rows.put_in(predictor.moments(j))
        eta, variance = self.touch.eta.copy(), self.variance.copy()
        eta[:, k], variance[:, k] = predictor.fitted()
        after = self.response.touch(eta, self.uncertain)
        if borne or self._bears_out(after, k):
            self.variance = variance
            self.touch = self._at(eta, None if self.response.minds_variance else after)
            return True
        return False

    def _sums(self, k: int, j: int, touch: Touch) -> BlockSums:
        """For one block: over the parabolas that touch the losses of predictor k."""
        predictor = self.predictors[k]
        predictor.set_work(self.response.parabolas(touch, k))
        return predictor.rows.exchange(None, predictor.moments(j))

    def _bears_out(self, after: Touch, k: int) -> bool:
        if self.careful or self.response.family.curvature == "majorant":
            return bool(np.isfinite(after.value).all())
        return self.response.bears_out(self.touch, after, k)

    def _at(self, eta: Floats, touch: Touch | None = None) -> Touch:
        """Losses at predictors, with a family's own bounds where its curvatures vanish."""
        if touch is None:
            self.uncertain = self._uncertainty()
            touch = self.response.touch(eta, self.uncertain)
        if self.careful or float(np.abs(eta).max(initial=0.0)) > _CAREFUL:
            careful = self.response.careful(touch, self.variance)
            self.careful = self.careful or careful is not touch
            return careful
        return touch

    def _uncertainty(self) -> Floats:
        """Variances of the predictors, the smooth main effects' spread evenly over what the rows tell."""
        if not self.response.minds_variance:
            return self.variance
        smooth = np.array([self._spread(predictor) for predictor in self.predictors]) / self.response.total
        with quiet():
            return np.asarray(self.variance + np.where(smooth == 0.0, 0.0, smooth / self.touch.curvature))

    def _spread(self, predictor: Predictor) -> float:
        return predictor.spread(self.noise, self.response.total)

    def information(self, k: int) -> float:
        """What the rows tell of predictor k: curvature over dispersion."""
        return float(self.response.weight @ self.touch.curvature[:, k]) / self.noise

    def _move_mains(self, k: int, fitted: Floats, *, learn: bool = True) -> None:
        """Intercept and smooth main effects given what the blocks have fitted, as far as losses bear it."""
        predictor, response = self.predictors[k], self.response
        parabolas = response.parabolas(self.touch, k)
        rest = Parabolas(parabolas.weight, parabolas.pull - parabolas.weight * fitted)
        old = predictor.belief
        intercept, smooth = self.additive.step(old.smooth, rest, self.noise, learn=learn)
        share = 1.0
        for _ in range(8):
            coef = old.smooth.coef + share * (smooth.coef - old.smooth.coef)
            moved = old.intercept + share * (intercept - old.intercept)
            predictor.move(moved, Smooth(coef, smooth.strength, smooth.spread))
            eta = self.touch.eta.copy()
            eta[:, k] = fitted + predictor.own_part
            after = response.touch(eta, self.uncertain)
            if self._bears_out(after, k):
                self.touch = self._at(eta, None if response.minds_variance else after)
                return
            self.damped += 1
            share *= 0.5
        predictor.move(old.intercept, old.smooth)

    def _update_dispersion(self, spread: Floats, floor: float) -> None:
        """The mean of squared residuals and of what is not known about predictors, where it is estimated."""
        response, family = self.response, self.response.family
        if not family.dispersed:
            return
        smooth = sum(self._spread(predictor) for predictor in self.predictors) / response.total
        squares = family.pearson(response.y, response.shifted(self.touch.eta))
        noise = response.mean_of(squares + spread) + smooth
        if not np.isfinite(noise):
            raise FailedError("the dispersion is not finite")
        self.noise = max(noise, floor, 1e-9)

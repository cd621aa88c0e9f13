"""One predictor of a member: what is believed of every column's functions, and the rows' states that go with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from ahofm.columns.basis import Floats
from ahofm.families.links import quiet
from ahofm.fit.cost.schedule import Snapshot
from ahofm.fit.priors.tensor import MOST_COORDINATES, ROWS_PER_CELL, Coupling, Side, Surfaces
from ahofm.fit.solvers.variational.column import Block
from ahofm.fit.solvers.variational.main_effects import Additive, Smooth
from ahofm.fit.solvers.variational.row_states import BlockRows
from ahofm.fit.solvers.variational.working import Parabolas
from ahofm.kernels import ColumnMoments


@dataclass(frozen=True)
class Belief:
    """Everything of a predictor that a failed stage takes back."""

    intercept: float
    smooth: Smooth
    blocks: tuple[Block, ...]
    ranks: Mapping[int, int]
    surfaces: Surfaces | None = None

    def snapshot(self, additive: Additive, noise: float) -> Snapshot | None:
        """The fit as it is; None unless every column has been solved with all its factors."""
        width = sum(self.ranks.values())
        parts = []
        for block in self.blocks:
            if block.main is None or (0 if block.factors is None else block.factors.mean.shape[1]) != width:
                return None
            parts.append(block.column.coefficients(block.main, block.factors))
        mains = additive.coefficients(self.smooth.coef, [block.column.book for block in self.blocks])
        for (coef, level), (smooth, constant) in zip(parts, mains, strict=True):
            coef[:, 0] += smooth
            level[0] += constant
        return Snapshot(
            dict(self.ranks),
            self.intercept,
            noise,
            tuple(coef for coef, _ in parts),
            tuple(level for _, level in parts),
            tuple(block.mean for block in self.blocks),
            tuple((block.main_strength, self._strength(j)) for j, block in enumerate(self.blocks)),
        )

    def _strength(self, j: int) -> Floats:
        """Of a column's factors; for pairs, what its surfaces have in the mean."""
        strength = self.blocks[j].strength
        if self.surfaces is None:
            return strength
        rough, plain = self.surfaces.of(j)
        strength = strength.copy()
        strength[0, : self.ranks[2]], strength[1:, : self.ranks[2]] = rough, plain
        return strength


class Predictor:
    """A belief that changes, and the rows' states under it."""

    def __init__(self, belief: Belief, additive: Additive) -> None:
        """Without states."""
        self.belief = belief
        self.blocks = list(belief.blocks)
        self.own_part = additive.design @ belief.smooth.coef + belief.intercept
        self._additive = additive
        self._share = 0.0
        self._rows: BlockRows | None = None
        self._known: dict[int, tuple[Block, Side]] = {}

    @property
    def rows(self) -> BlockRows:
        """States, which have been built."""
        if self._rows is None:
            raise RuntimeError("rows have no states yet")
        return self._rows

    def frozen(self) -> Belief:
        """The belief as it is."""
        return replace(self.belief, blocks=tuple(self.blocks))

    def widen(self, order: int, start: Sequence[Floats]) -> None:
        """Add factors of an order, the highest there is or the next, with those values."""
        self.blocks = [block.widened(part) for block, part in zip(self.blocks, start, strict=True)]
        rank = self.belief.ranks.get(order, 0) + start[0].shape[1]
        self.belief = replace(self.belief, ranks={**self.belief.ranks, order: rank})
        self._rows = None

    def begin_surfaces(self, information: float, n_rows: float) -> None:
        """From now on pairs have strengths of their own, where that is of use."""
        if len(self.blocks) > 1 and all(block.has_sides for block in self.blocks):
            cells = prod(sorted(block.n_levels for block in self.blocks)[-2:])
            if (
                cells * ROWS_PER_CELL <= n_rows
                and sum(block.n_coordinates for block in self.blocks) <= MOST_COORDINATES
            ):
                self.belief = replace(self.belief, surfaces=Surfaces.start(self._sides(), information, n_rows))

    def learn_surfaces(self, information: float) -> None:
        """New strengths of pairs."""
        if self.belief.surfaces is not None:
            self.belief = replace(self.belief, surfaces=self.belief.surfaces.learned(self._sides(), information))

    def coupling(self, j: int) -> Coupling | None:
        """What the surfaces of a column mean for its factors."""
        return None if self.belief.surfaces is None else self.belief.surfaces.coupling(self._sides(), j)

    def spread(self, noise: float, total: float) -> float:
        """What smooth main effects and surfaces have used up of the noise."""
        own = 0.0 if self.belief.surfaces is None else self.belief.surfaces.spread(noise, total)
        return self.belief.smooth.spread + own

    def _sides(self) -> list[Side]:
        """Of all columns; those that have not been solved since are still known."""
        rank = self.belief.ranks[2]
        for j, block in enumerate(self.blocks):
            if j not in self._known or self._known[j][0] is not block:
                self._known[j] = block, block.side(rank)
        return [self._known[j][1] for j in range(len(self.blocks))]

    def move(self, intercept: float, smooth: Smooth) -> None:
        """Another intercept, and other smooth main effects; ``own_part`` is theirs, of all rows."""
        self.belief = replace(self.belief, intercept=intercept, smooth=smooth)
        self.own_part = self._additive.design @ smooth.coef + intercept

    def build(self, rows: BlockRows, share: float) -> None:
        """States with every column in, under a share of the variances."""
        self._rows, self._share = rows, share
        for j in range(len(self.blocks)):
            rows.put_in(self.moments(j))

    def moments(self, j: int) -> ColumnMoments:
        """What the rows are told of a column."""
        return ColumnMoments(j, self.blocks[j].mean, self._share * self.blocks[j].variance)

    def set_work(self, parabolas: Parabolas) -> None:
        """What the blocks are to explain: the target without intercept and smooth main effects."""
        with quiet():  # sums that are not finite are found where they are used
            rest = parabolas.pull - parabolas.weight * self.own_part
        self.rows.set_work(parabolas.weight, rest)

    def fitted(self) -> tuple[Floats, Floats]:
        """Mean and variance of all rows."""
        mean, variance = self.rows.fitted()
        return mean + self.own_part, variance

    def sweep(self, noise: float, *, learn: bool, backwards: bool) -> None:
        """Solve one column after another, for parabolas that stay what they are."""
        waiting: ColumnMoments | None = None
        ranks, order = list(self.belief.ranks.values()), range(len(self.blocks))
        for j in reversed(order) if backwards else order:
            sums = self.rows.exchange(waiting, self.moments(j))
            self.blocks[j] = self.blocks[j].solved(sums, noise, ranks, learn=learn, coupling=self.coupling(j))
            waiting = self.moments(j)
        if waiting is not None:
            self.rows.put_in(waiting)

"""Block coordinate descent: the paper's second algorithm.

eta is affine in all functions of one column, so each block is a convex problem. ``blocks="factor"`` takes the paper's
blocks, one (order, factor, column) at a time; ``blocks="column"`` solves for all functions of a column at once, which
is the same problem without the detour. A block takes one Newton step, exact for least squares and halved until it
improves the objective otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.typing import NDArray

from ahofm.columns.basis import Floats
from ahofm.fit.solvers.base import Objective, State
from ahofm.kernels import ColumnSums
from ahofm.model import Layout, Reason
from ahofm.orders import MAIN, factors_of
from ahofm.tuning.penalised import BLOCK_HALVINGS, BLOCK_JITTERS


@dataclass(frozen=True)
class Block:
    """Functions of one column that are updated together: the main effect (and the intercept with it), some factors."""

    column: int
    main: bool
    factors: tuple[int, ...]

    def positions(self, layout: Layout) -> NDArray[np.intp]:
        """Where the coefficients are in a linear predictor's vector."""
        everything = np.arange(layout.size)
        positions: list[NDArray[np.intp]] = [layout.factor(everything, self.column)[:, list(self.factors)].ravel()]
        if self.main:
            positions = [everything[:1], layout.main(everything, self.column), *positions]
        return np.concatenate(positions)

    def quadratic(self, layout: Layout, sums: ColumnSums) -> tuple[Floats, Floats]:
        """Slope and curvature of the loss by the block's coefficients."""
        values = _dense(layout, self.column)
        chosen = factors_of(np.arange(layout.orders.width))[list(self.factors)]
        rank, size = len(chosen), values.shape[1]
        gradient = [np.einsum("ck,ca->ka", values, sums.g[:, chosen]).ravel()]
        pairs = np.empty((size, rank, size, rank))
        for a in range(rank):
            for b in range(a + 1):
                pairs[:, a, :, b] = pairs[:, b, :, a] = values.T @ (
                    sums.h[:, chosen[a], chosen[b], np.newaxis] * values
                )
        H = pairs.reshape(size * rank, size * rank)
        if self.main:
            main_values = np.column_stack([np.ones(len(values)), _dense(layout, self.column, main=True)])
            gradient.insert(0, main_values.T @ sums.g[:, MAIN])
            cross = np.empty((main_values.shape[1], size, rank))
            for a in range(rank):
                cross[:, :, a] = main_values.T @ (sums.h[:, MAIN, chosen[a], np.newaxis] * values)
            across = cross.reshape(main_values.shape[1], size * rank)
            H = np.block([[main_values.T @ (sums.h[:, MAIN, MAIN, np.newaxis] * main_values), across], [across.T, H]])
        return np.concatenate(gradient), H


def _dense(layout: Layout, column: int, *, main: bool = False) -> Floats:
    coordinates = (layout.mains if main else layout.factors)[column]
    return coordinates.at_codes(np.eye(coordinates.size)) if coordinates.shifted else np.asarray(coordinates.values)


def blocks_of(
    layout: Layout, by: Literal["column", "factor"], left_out: NDArray[np.bool_] | None = None
) -> Iterator[Block]:
    """The blocks of one sweep, without the factors in which a column has no function."""
    columns = [j for j, main in enumerate(layout.mains) if main.size]
    n_factors = layout.orders.n_factors
    kept = np.ones((len(layout.mains), n_factors), dtype=bool) if left_out is None else ~left_out
    if by == "column":
        yield from (Block(j, True, tuple(np.flatnonzero(kept[j]).tolist())) for j in columns)
        return
    yield from (Block(j, True, ()) for j in columns)
    for factor in range(n_factors):
        yield from (Block(j, False, (factor,)) for j in columns if kept[j, factor])


@dataclass(frozen=True)
class Bcd:
    """Newton steps in blocks.

    Parameters
    ----------
    blocks : "column" or "factor"
    """

    blocks: Literal["column", "factor"] = "column"
    name: str = "bcd"

    def __post_init__(self) -> None:
        """Refuse blocks that do not exist."""
        if self.blocks not in ("column", "factor"):
            raise ValueError(f"blocks must be 'column' or 'factor', got {self.blocks!r}")

    def init(self, objective: Objective, theta: Floats) -> State:
        """One pass."""
        for main in objective.layout.mains:
            if sp.issparse(main.values):
                raise ValueError(
                    f"solver 'bcd' solves dense blocks, and a column has {main.size:,} levels; "
                    "use solver='lbfgs' or 'adam'"
                )
        value, gradient = objective.value_and_gradient(theta)
        return State(theta, value, gradient, theta)

    def step(self, objective: Objective, state: State) -> State:
        """A sweep over all blocks: a pass each (two when steps must be checked), and one for the objective."""
        theta, value = state.theta.copy(), state.value
        for linear_predictor in range(objective.family.n_eta):
            for block in blocks_of(objective.layout, self.blocks, objective.left_out):
                theta, value = _update(objective, theta, value, linear_predictor, block)
        value, gradient = objective.value_and_gradient(theta)
        if not value < state.value:
            return replace(state, reason=Reason.NO_PROGRESS if np.isfinite(value) else Reason.DIVERGED)
        return State(theta, value, gradient, theta)


def _update(
    objective: Objective, theta: Floats, value: float, linear_predictor: int, block: Block
) -> tuple[Floats, float]:
    """One Newton step in one block."""
    positions = linear_predictor * objective.layout.size + block.positions(objective.layout)
    g, H = block.quadratic(objective.layout, objective.block(theta, linear_predictor, block.column))
    lam = objective.lam[positions]
    g, H = g + lam * theta[positions], H + np.diag(lam)
    step = -_solve(H, g)
    exact = objective.family.builtin == "gaussian"
    for _ in range(1 if exact else BLOCK_HALVINGS):
        new = theta.copy()
        new[positions] += step
        if exact:
            return new, value
        new_value = objective.value(new)
        if new_value <= value:
            return new, new_value
        step = 0.5 * step
    return theta, value


def _solve(H: Floats, g: Floats) -> Floats:
    """H^-1 g; a jitter far below the data's curvature where H is singular."""
    top = float(np.diag(H).max(initial=0.0))
    for jitter in BLOCK_JITTERS:
        try:
            factor = scipy.linalg.cho_factor(H + (jitter * top + np.finfo(float).tiny) * np.eye(len(H)))
        except np.linalg.LinAlgError:
            continue
        return np.asarray(scipy.linalg.cho_solve(factor, g))
    return np.asarray(g / max(top, np.finfo(float).tiny))

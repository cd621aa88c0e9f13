"""Results of a fit with shared curves: at the codes, and in the bases of the columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ahofm.columns.basis import Floats
from ahofm.model import Predictor
from ahofm.model.shared_predictors import SharedPredictors
from ahofm.orders import PRODUCT, Orders
from ahofm.priors.base import FunctionPosterior, zero_posterior
from ahofm.shared_curves.columns import ClassColumn, CodedColumn
from ahofm.shared_curves.main_effects import ClassMains, JointDesign
from ahofm.shared_curves.polynomials import Polynomials
from ahofm.shared_curves.problem import ClassProblem, ClassState
from ahofm.shared_curves.products import Products


def predicted(problem: ClassProblem, design: JointDesign, state: ClassState, coded: Sequence[CodedColumn]) -> Floats:
    """Linear predictors at other coded rows of the same columns, (K, n), without offsets."""
    n_classes, factors = problem.rows.n_classes, state.factors
    total = np.tile(state.mains.coef[0][:, np.newaxis], len(coded[0].codes))
    for j, (column, column_codes) in enumerate(zip(problem.columns, coded, strict=True)):
        main = _main(design, state.mains, j, column, n_classes).mean
        total += np.vstack([main, np.zeros((1, n_classes))]).T[:, column_codes.codes]
    if factors is None:
        return total
    for order, which in factors.slices.items():
        curves = [
            curve.values[column_codes.codes, which] for curve, column_codes in zip(factors.columns, coded, strict=True)
        ]
        terms = Products(curves).terms if order == PRODUCT else Polynomials(order, curves).terms
        total += factors.loadings[which].T @ terms.T
    return total


@dataclass(frozen=True)
class ClassFit:
    """A fit, in the codebooks' bases.

    Attributes
    ----------
    ranks : dict of order to rank
    intercepts : array of shape (K,)
    mains, main_centrings : tuples of arrays of shape (functions, K) and (K,), one per column
        Main effects of all classes.
    curves, centrings : tuples of arrays of shape (functions, factors) and (factors,), one per column
        Shared by the classes; of product factors without constants.
    constants : array of shape (columns, rank of product factors) or None
        Of product factors.
    loadings : array of shape (factors, K)
    squares : array of shape (factors,)
        Mean square of each factor's term at the training rows.
    smoothing_parameters : dict of order to array of shape (columns,)
        The first one of each column.
    loss : float
        Mean loss at the training rows.
    """

    ranks: Mapping[int, int]
    intercepts: Floats
    mains: tuple[Floats, ...]
    main_centrings: tuple[Floats, ...]
    curves: tuple[Floats, ...]
    centrings: tuple[Floats, ...]
    constants: Floats | None
    loadings: Floats
    squares: Floats
    smoothing_parameters: Mapping[int, Floats]
    loss: float

    @classmethod
    def of(cls, problem: ClassProblem, design: JointDesign, state: ClassState) -> ClassFit:
        """The result of a fit, from its final state."""
        rows, factors = problem.rows, state.factors
        ranks = {} if factors is None else factors.ranks
        mains, curves = [], []
        for j, column in enumerate(problem.columns):
            main = _main(design, state.mains, j, column, rows.n_classes)
            mains.append(column.in_basis(main, main=True))
            posterior = None if factors is None else factors.columns[j].posterior
            if posterior is None:
                posterior = zero_posterior(column.priors.factors, len(main.mean), sum(ranks.values()))
            curves.append(column.in_basis(posterior, main=False))
        lam = {1: np.array([_main_lam(design, state.mains, j) for j in range(len(problem.columns))])}
        loadings, squares, constants = np.zeros((0, rows.n_classes)), np.zeros(0), None
        if factors is not None:
            loadings, constants = factors.loadings, factors.constants
            squares = rows.weight @ factors.terms**2 / rows.total
            for order, which in factors.slices.items():
                lam[order] = np.array([column.lam[0, which.start] for column in factors.columns])
        return cls(
            ranks,
            state.mains.coef[0].copy(),
            tuple(coef for coef, _ in mains),
            tuple(centring for _, centring in mains),
            tuple(coef for coef, _ in curves),
            tuple(centring for _, centring in curves),
            constants,
            loadings,
            squares,
            lam,
            rows.loss(state.eta) / rows.total,
        )

    @property
    def linear_predictors(self) -> tuple[Predictor, ...]:
        """The linear predictors of all classes, which share their factors."""
        pairs = zip(self.mains, self.curves, strict=True)
        centring_pairs = zip(self.main_centrings, self.centrings, strict=True)
        shared = SharedPredictors(
            self.intercepts,
            tuple(np.hstack(pair) for pair in pairs),
            tuple(np.concatenate(pair) for pair in centring_pairs),
            {order: self.loadings[which] for order, which in Orders(self.ranks).factor_slices.items()},
            ({},) * len(self.intercepts),
            self.constants,
        )
        return shared.from_whole_products().separate()


def _main(design: JointDesign, mains: ClassMains, j: int, column: ClassColumn, n_classes: int) -> FunctionPosterior:
    """Main effects of a column in all classes."""
    if j in mains.posteriors:
        return mains.posteriors[j]
    coef = mains.coef[design.columns == j]
    if not len(coef):
        return zero_posterior(column.priors.main, len(column.priors.mass), n_classes)
    values = column.coordinates @ coef
    none = np.zeros((0, n_classes))
    return FunctionPosterior(values, np.zeros_like(values), coef, None, none, none)


def _main_lam(design: JointDesign, mains: ClassMains, j: int) -> float:
    """The first smoothing parameter of a column's main effects."""
    if j in mains.column_lam:
        return float(mains.column_lam[j][0, 0])
    groups = design.group[design.columns == j]
    return float(mains.lam[groups[0]]) if len(groups) else 0.0

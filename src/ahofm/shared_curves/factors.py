"""Shared curves and class loadings: the exact solve of one column's curves, and that of all loadings.

    eta_k = main effects + sum_f L_fk T_f        T_f = e_d(curve_1f, ..., curve_pf)        sum_k L_fk = 0

Given its partners, a column's curves are linear in all K linear predictors. With slopes ``g_f`` of the terms by the
column's curves, rows enter the solve by sums over the rows of each code b:

    gram_b[f, f'] = (L L')_ff'  sum_i w_i g_if g_if'
    rhs_b[f]      = sum_i g_if ( (slope_i L')_f  +  w_i sum_f' (g_if' curve_if') (L L')_f'f )

from which every prior of a column's functions has its posterior. Variances of partners in pairs, triples and products,
times the tempering, are added: that of ``g_f`` to ``g_f^2``, and that of the loadings to ``(L L')_ff``.

Product factors have T_f = product of psi_jf over all columns (``products``) with psi_jf = m_jf + phi_jf; given the
functions phi the constants m are solved for first. Their functions are scaled to a root mean square of one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg

from ahofm.columns.basis import Floats
from ahofm.orders import PRODUCT, Orders
from ahofm.priors.base import FunctionPosterior, bounded, decoupled, with_zeros
from ahofm.priors.bounds import Bounds
from ahofm.priors.fellner_schall import updated_by_order
from ahofm.priors.spline import SplinePrior
from ahofm.shared_curves.class_rows import ClassRows, ClassWorkingResponse
from ahofm.shared_curves.columns import ClassColumn, CodedColumn
from ahofm.shared_curves.polynomials import Polynomials, Variances
from ahofm.shared_curves.products import Products, away_from_zero, scale_of, solved_constants
from ahofm.training.factor_groups import FactorGroups
from ahofm.tuning import COLUMN_JITTERS
from ahofm.tuning.classes import LARGEST_CLASS_VALUE, LOADING_LAM, LOADING_RIDGE


@dataclass
class SharedColumn:
    """Curves of one column.

    Attributes
    ----------
    values, variance : arrays of shape (codes + 1, factors)
        At the codes; the last row is the neutral code. Of product factors psi, which are the constants there.
    lam : array of shape (groups, factors)
        Smoothing parameters, the same for all factors of an order.
    posterior : FunctionPosterior or None
        None before the first solve. Of product factors phi, without constants.
    """

    values: Floats
    variance: Floats
    lam: Floats
    posterior: FunctionPosterior | None = None


class SharedFactors:
    """Curves of all columns and the loadings of all classes, with the terms at the rows.

    Attributes
    ----------
    ranks : dict of order to rank
    columns : list of SharedColumn
    loadings : array of shape (factors, K)
        Every row has sum zero.
    loading_variance : array of shape (factors,)
        The same for all classes.
    """

    def __init__(
        self,
        ranks: Mapping[int, int],
        columns: Sequence[ClassColumn],
        coded: Sequence[CodedColumn],
        starts: Sequence[Floats],
        groups: FactorGroups | None = None,
        constants: Floats | None = None,
    ) -> None:
        """Curves with values ``starts`` at the codes, (codes, factors) each, without loadings.

        A column has no curve in factors of groups without it. Product factors, which are the last and all of whose
        curves may be of any column, have values ``starts`` with the ``constants`` (columns, rank) included.
        """
        self.ranks = dict(ranks)
        if PRODUCT in self.ranks and (groups is not None and groups.groups is not None):
            raise ValueError("product factors of several classes have all columns: there can be no groups of columns")
        self._left_out = None if groups is None else groups.all_left_out(ranks)
        self._columns, self._coded = columns, coded
        self.columns: list[SharedColumn] = []
        for j, (column, start_values) in enumerate(zip(columns, starts, strict=True)):
            start = start_values if self._left_out is None else np.where(self._left_out[j], 0.0, start_values)
            values = np.vstack([start, np.zeros((1, start.shape[1]))])
            lam = np.tile(column.priors.factors.initial_lam(1.0 / len(columns))[:, np.newaxis], start.shape[1])
            if PRODUCT in self.ranks:
                assert constants is not None
                values[-1, self.slices[PRODUCT]] = constants[j]
                lam[:, self.slices[PRODUCT]] = column.priors.factors.initial_lam(1.0)[:, np.newaxis]
            self.columns.append(SharedColumn(values, np.zeros_like(values), lam))
        self.loadings = np.zeros((0, 0))
        self.loading_variance = np.zeros(sum(ranks.values()))
        self.tempering = 0.0
        self._polynomials: dict[int, Polynomials] | None = None
        self._products: Products | None = None

    @property
    def slices(self) -> dict[int, slice]:
        """Which factors each order has."""
        return Orders(self.ranks).factor_slices

    @property
    def constants(self) -> Floats | None:
        """Constants of product factors (columns, rank), or None."""
        if PRODUCT not in self.ranks:
            return None
        return np.array([column.values[-1, self.slices[PRODUCT]] for column in self.columns])

    def without_constants(self, values: Floats) -> Floats:
        """Functions at the codes but the neutral one, of values (codes + 1, factors): of product factors phi."""
        found = values[:-1]
        return found - values[-1] if PRODUCT in self.ranks else found  # zero but for product factors

    def left_out(self, j: int) -> Floats | None:
        """Factors (factors,) in which a column has no curve, as 1; None: it may have one in all of them."""
        return None if self._left_out is None else self._left_out[j].astype(np.float64)

    def take(self, columns: Sequence[SharedColumn], loadings: Floats, loading_variance: Floats) -> None:
        """Replace curves and loadings, by those of a compiled sweeper."""
        self.columns, self.loadings, self.loading_variance = list(columns), loadings, loading_variance
        self._polynomials = self._products = None

    @property
    def polynomials(self) -> dict[int, Polynomials]:
        """Elementary symmetric polynomials of each order at the rows; computed at first use."""
        if self._polynomials is None:
            self.rebuild()
        assert self._polynomials is not None
        return self._polynomials

    @property
    def products(self) -> Products:
        """Product factors at the rows; computed at first use."""
        if self._products is None:
            self.rebuild()
        assert self._products is not None
        return self._products

    @property
    def terms(self) -> Floats:
        """Terms of all factors at the rows, (n, factors)."""
        return np.hstack(
            [self.products.terms if order == PRODUCT else self.polynomials[order].terms for order in self.ranks]
        )

    def rebuild(self) -> None:
        """Terms from scratch, against rounding."""
        curves = [column.values[coded.codes] for column, coded in zip(self.columns, self._coded, strict=True)]
        self._polynomials = {
            order: Polynomials(order, [curve[:, which] for curve in curves])
            for order, which in self.slices.items()
            if order != PRODUCT
        }
        if PRODUCT in self.ranks:
            self._products = Products([curve[:, self.slices[PRODUCT]] for curve in curves])
        if self.tempering:
            self.temper(self.tempering)

    def temper(self, tempering: float) -> None:
        """Use the variances of partners in pairs, triples and products, times the tempering, from now on."""
        self.tempering = tempering
        for order in self._uncertain_orders:
            which = self.slices[order]
            if order == PRODUCT:
                at_rows = [
                    (column.values[coded.codes, which], tempering * column.variance[coded.codes, which])
                    for column, coded in zip(self.columns, self._coded, strict=True)
                ]
                self._products = Products([curve for curve, _ in at_rows], [variance for _, variance in at_rows])
                continue
            polynomials = self.polynomials[order]
            variances = Variances.none(order, polynomials.terms.shape)
            for column, coded in zip(self.columns, self._coded, strict=True):
                variances.change(
                    tempering * column.variance[coded.codes, which], column.values[coded.codes, which], 1.0
                )
            polynomials.variances = variances

    @property
    def _uncertain_orders(self) -> list[int]:
        """Orders in which variances of partners are used."""
        return [order for order in self.ranks if order <= 3 or order == PRODUCT] if self.tempering else []

    def start_loadings(self, rows: ClassRows, eta: Floats, least: float) -> None:
        """Ridge regression of slopes on the terms; loadings below ``least`` in root mean square are scaled up to it.

        Products are of mean one or so: without their means in the regression.
        """
        working, terms = rows.working_response(eta), self.terms
        if PRODUCT in self.ranks:
            products = terms[:, self.slices[PRODUCT]]  # a view
            products -= working.weight @ products / working.weight.sum()
        gram = terms.T @ (terms * working.weight[:, np.newaxis])
        right = terms.T @ working.slope.T
        found = np.linalg.solve(gram + np.diag(LOADING_RIDGE * np.diag(gram) + 1.0), right)
        sizes = np.sqrt((found**2).mean(axis=1, keepdims=True))
        directions = right / np.maximum(np.sqrt((right**2).mean(axis=1, keepdims=True)), np.finfo(float).tiny)
        found = np.where(sizes < least, least * directions, found)
        self.loadings = found - found.mean(axis=1, keepdims=True)

    def eta(self) -> Floats:
        """Sum of the factors' terms in the linear predictors, (K, n)."""
        return np.asarray(self.loadings.T @ self.terms.T)

    def column_step(self, j: int, working: ClassWorkingResponse, *, update_lam: bool) -> Floats:
        """Solve for the curves of one column; the change of the linear predictors, (K, n)."""
        column, coded, class_column = self.columns[j], self._coded[j], self._columns[j]
        curve, variance = column.values[coded.codes], column.variance[coded.codes]
        others = {
            order: [self.products.slopes(j)] if order == PRODUCT else self.polynomials[order].without(curve[:, which])
            for order, which in self.slices.items()
        }
        slopes = np.hstack([others_e[-1] for others_e in others.values()])
        products = self.loadings @ self.loadings.T
        weighted_response = working.slope.T @ self.loadings.T + working.weight[:, np.newaxis] * (
            (slopes * curve) @ products
        )
        gram, rhs = coded.block_sums(slopes, working.weight, weighted_response)
        gram *= products
        for order in self._uncertain_orders:
            which = self.slices[order]
            added, less = self._uncertain(j, order, others[order], curve, variance, working.weight)
            np.einsum("bff->bf", gram)[:, which] += coded.sums(added)
            rhs[:, which] -= coded.sums(less)
        if self._left_out is not None:
            gram, rhs = decoupled(gram, rhs, self._left_out[j])
        constants, constant_variance = np.zeros((2, slopes.shape[1]))
        if PRODUCT in self.ranks:
            which = self.slices[PRODUCT]
            functions = self.without_constants(column.values)
            constants[which], constant_variance[which] = solved_constants(gram, rhs, functions, which, working.fisher)
            rhs = rhs - gram @ constants
        solved, estimated = _solved(class_column, gram, rhs, column.lam, working.fisher, update_lam=update_lam)
        if self._left_out is not None:
            solved = with_zeros(solved, self._left_out[j])
            estimated = None if estimated is None else with_zeros(estimated, self._left_out[j])
        if class_column.priors.saturated:
            times = np.full(len(solved.mean), LARGEST_CLASS_VALUE)
            solved = bounded(solved, Bounds(class_column.priors.mass, times))
        values = np.vstack([solved.mean, np.zeros((1, solved.mean.shape[1]))]) + constants
        new_variance, lam = column.variance, column.lam
        if estimated is not None:
            new_variance = np.vstack([estimated.variance + constant_variance, np.zeros((1, values.shape[1]))])
            lam = updated_by_order(
                class_column.priors.factors, replace(solved, edf=estimated.edf), column.lam, list(self.ranks.values())
            )
        scale = np.ones(values.shape[1])
        if PRODUCT in self.ranks:
            scale[which] = scale_of(values[:-1, which], class_column.priors.mass)
            values[:, which] = away_from_zero(values[:, which] / scale[which])
        new_variance = new_variance / scale**2
        self.columns[j] = SharedColumn(values, new_variance, lam, solved.rescaled(scale))
        difference = (values * scale)[coded.codes] - curve
        change = np.asarray(self.loadings.T @ (slopes * difference).T)
        self._move(j, others, curve, variance)
        self.loadings = self.loadings * scale[:, np.newaxis]
        self.loading_variance = self.loading_variance * scale**2
        return change

    def _move(self, j: int, others: Mapping[int, Sequence[Floats]], curve: Floats, variance: Floats) -> None:
        """Move the terms of the rows to a column's new curves, from ``curve`` and ``variance`` (n, factors)."""
        codes = self._coded[j].codes
        new, new_variance = self.columns[j].values[codes], self.tempering * self.columns[j].variance[codes]
        for order, which in self.slices.items():
            if order == PRODUCT:
                self.products.replace(j, new[:, which], new_variance[:, which])
            else:
                self.polynomials[order].change(others[order], new[:, which] - curve[:, which])
        for order in self._uncertain_orders:
            if order == PRODUCT:
                continue
            variances, which = self.polynomials[order].variances, self.slices[order]
            assert variances is not None
            variances.change(self.tempering * variance[:, which], curve[:, which], -1.0)
            variances.change(new_variance[:, which], new[:, which], 1.0)

    def _uncertain(
        self, j: int, order: int, others: Sequence[Floats], curve: Floats, variance: Floats, weight: Floats
    ) -> tuple[Floats, Floats]:
        """Per row and factor: addition to the diagonal of gram, and subtraction from rhs, by variances of partners."""
        which, slopes, row_weight = self.slices[order], others[-1], weight[:, np.newaxis]
        loading_part = (self.loadings.shape[1] - 1) * self.tempering * self.loading_variance[which]
        total = (self.loadings[which] ** 2).sum(axis=1) + loading_part
        if order == PRODUCT:  # nothing of a term is without the column
            added = row_weight * (self.products.slope_variances(j) * total + slopes**2 * loading_part)
            return added, np.zeros_like(added)
        polynomials = self.polynomials[order]
        curve, column_variance = curve[:, which], self.tempering * variance[:, which]
        slope_variance, covariance = polynomials.slope_variances(others, column_variance, curve)
        without = polynomials.terms - curve * slopes
        added = row_weight * (slope_variance * total + slopes**2 * loading_part)
        return added, row_weight * (covariance * total + slopes * without * loading_part)

    def loading_step(self, working: ClassWorkingResponse) -> Floats:
        """Solve for the loadings of all classes; the change of the linear predictors, (K, n)."""
        terms = self.terms
        gram = terms.T @ (terms * working.weight[:, np.newaxis])
        matrix = gram.copy()
        diagonal = np.einsum("ii->i", matrix)
        for order in self._uncertain_orders:
            uncertain = self.products if order == PRODUCT else self.polynomials[order]
            variance = uncertain.term_variances()
            assert variance is not None
            diagonal[self.slices[order]] += working.weight @ variance
        information = working.fisher * matrix
        diagonal += LOADING_LAM
        right = gram @ self.loadings + terms.T @ working.slope.T
        found = scipy.linalg.cho_solve(scipy.linalg.cho_factor(matrix, lower=True), right, check_finite=False)
        found -= found.mean(axis=1, keepdims=True)
        change = found - self.loadings
        self.loadings = found
        if self.tempering:
            information[np.diag_indices_from(information)] += LOADING_LAM
            self.loading_variance = np.diag(np.linalg.inv(information)).copy()
        return np.asarray(change.T @ terms.T)

    def penalty(self) -> float:
        """Half the penalties of curves and loadings, for the smoothing parameters that they have."""
        curves = sum(
            float((column.lam * column.posterior.quadratic_form).sum())
            for column in self.columns
            if column.posterior is not None
        )
        return 0.5 * (curves + LOADING_LAM * float((self.loadings**2).sum()))


def _solved(
    column: ClassColumn, gram: Floats, rhs: Floats, lam: Floats, fisher: float, *, update_lam: bool
) -> tuple[FunctionPosterior, FunctionPosterior | None]:
    """The posterior by the weights of the step; that by Fisher's information, to learn smoothing parameters from."""
    prior = column.priors.factors
    diagonal = np.einsum("bff->bf", gram)
    for jitter in COLUMN_JITTERS:
        diagonal += jitter * diagonal.mean(axis=1, keepdims=True)
        try:
            estimated = prior.solve(fisher * gram, fisher * rhs, lam) if update_lam else None
            if not isinstance(prior, SplinePrior):
                return prior.solve(gram, rhs, lam), estimated
            coef = prior.mean(gram, rhs, lam)
            values = prior.values @ coef
            form = prior.quadratic_forms(coef)
            return FunctionPosterior(values, np.zeros_like(values), coef, None, np.zeros_like(form), form), estimated
        except (ValueError, np.linalg.LinAlgError):
            continue
    raise np.linalg.LinAlgError("a block of shared curves is not positive definite")

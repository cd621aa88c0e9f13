"""Main effects of all classes: smooth ones of all columns together, others column by column.

All classes share one Gram matrix (see ``class_rows``), so a step for K classes is one factorisation and K solves. The
smoothing parameters of a column are the same in all classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import scipy.linalg
from scipy.linalg import lapack

from ahofm.backends.design import weighted_gram
from ahofm.columns.basis import Floats
from ahofm.priors.base import FunctionPosterior
from ahofm.priors.fellner_schall import updated, updated_by_order
from ahofm.shared_curves.class_rows import ClassWorkingResponse
from ahofm.shared_curves.columns import ClassColumn, CodedColumn
from ahofm.tuning import MOST_DESIGN_CELLS, MOST_MAIN_COEFFICIENTS, SPLINE_JITTER
from ahofm.tuning.classes import CLASS_MAIN_LAM, LARGEST_CLASS_LAM, SMALLEST_CLASS_LAM


@dataclass(frozen=True)
class JointDesign:
    """An intercept, and coordinates of smooth main effects at the rows.

    Attributes
    ----------
    matrix : array of shape (n, 1 + coefficients)
    columns : array of shape (1 + coefficients,)
        Number of each coefficient's column; -1 for the intercept.
    group : array of shape (1 + coefficients,)
        Which smoothing parameter it has; -1 for the intercept.
    relative_penalty : array of shape (1 + coefficients,)
        Within its group; 0 for the intercept.
    """

    matrix: Floats
    columns: Floats
    group: Floats
    relative_penalty: Floats

    @classmethod
    def of(cls, columns: Sequence[ClassColumn], coded: Sequence[CodedColumn]) -> JointDesign:
        """At coded rows. Of the intercept alone when there would be too many coefficients."""
        n_rows = len(coded[0].codes)
        size = sum(column.coordinates.shape[1] for column in columns if column.in_joint_design)
        fits_memory = size <= MOST_MAIN_COEFFICIENTS and size * n_rows <= MOST_DESIGN_CELLS
        blocks, column_numbers, group, relative_penalty = [np.ones((n_rows, 1))], [[-1]], [[-1]], [[0.0]]
        n_groups = 0
        for j, (column, column_codes) in enumerate(zip(columns, coded, strict=True)):
            if not (fits_memory and column.in_joint_design):
                continue
            smooth = column.priors.main_smooth
            assert smooth is not None
            values = np.vstack([smooth.values, np.zeros((1, smooth.values.shape[1]))])
            blocks.append(values[column_codes.codes])
            column_numbers.append([j] * values.shape[1])
            group.append(list(n_groups + smooth.group))
            relative_penalty.append(list(smooth.relative_penalty))
            n_groups += int(smooth.group.max()) + 1
        return cls(
            np.hstack(blocks),
            np.concatenate(column_numbers).astype(np.intp),
            np.concatenate(group).astype(np.intp),
            np.concatenate(relative_penalty),
        )

    @property
    def n_groups(self) -> int:
        """Smoothing parameters."""
        return int(self.group.max()) + 1

    def first_lam(self, columns: Sequence[ClassColumn]) -> Floats:
        """Initial smoothing parameters: larger for wiggly parts than for lines."""
        lam = np.full(self.n_groups, CLASS_MAIN_LAM[1])
        for k in range(self.n_groups):
            column = columns[self.columns[self.group == k][0]]
            smooth = column.priors.main_smooth
            assert smooth is not None
            first = self.group[self.columns == self.columns[self.group == k][0]].min()
            if (smooth.penalty_eigenvalues[smooth.group == k - first] > 0.0).all():
                lam[k] = CLASS_MAIN_LAM[0]
        return lam


@dataclass
class ClassMains:
    """Main effects of all classes.

    Attributes
    ----------
    coef : array of shape (1 + coefficients, K)
        Intercepts and smooth main effects; every row has sum zero.
    lam : array of shape (groups,)
    posteriors : dict of column to FunctionPosterior
        Of K functions, of columns that are not in the joint design.
    column_lam : dict of column to array of shape (groups, K)
    """

    coef: Floats
    lam: Floats
    posteriors: dict[int, FunctionPosterior] = field(default_factory=dict)
    column_lam: dict[int, Floats] = field(default_factory=dict)

    def copy(self) -> ClassMains:
        """A copy that later steps do not change."""
        return ClassMains(self.coef.copy(), self.lam.copy(), dict(self.posteriors), dict(self.column_lam))

    def smooth_step(self, design: JointDesign, working: ClassWorkingResponse, *, update_lam: bool) -> Floats:
        """Solve for intercepts and smooth main effects; the change of linear predictors, (K, n)."""
        gram = weighted_gram(design.matrix, working.weight)
        penalty = (
            np.where(design.group >= 0, self.lam[design.group] if len(self.lam) else 0.0, 0.0) * design.relative_penalty
        )
        matrix = gram + np.diag(penalty)
        matrix[np.diag_indices_from(matrix)] += SPLINE_JITTER * np.trace(gram) / len(gram)
        slopes = design.matrix.T @ working.slope.T - penalty[:, np.newaxis] * self.coef
        step = scipy.linalg.cho_solve(scipy.linalg.cho_factor(matrix, lower=True), slopes, check_finite=False)
        step -= step.mean(axis=1, keepdims=True)
        self.coef = self.coef + step
        if update_lam and len(self.lam):
            self._update_lam(design, working.fisher * gram, penalty)
        return np.asarray(step.T @ design.matrix.T)

    def _update_lam(self, design: JointDesign, information: Floats, penalty: Floats) -> None:
        """New smoothing parameters, shared by the classes, from Fisher's information."""
        matrix = information + np.diag(penalty)
        matrix[np.diag_indices_from(matrix)] += SPLINE_JITTER * np.trace(information) / len(information)
        factor, failed = lapack.dpotrf(matrix, lower=1)
        if failed:
            return
        covariance, _ = lapack.dpotri(factor, lower=1)
        penalised, n_classes = design.group >= 0, self.coef.shape[1]
        group, size = design.group[penalised], design.n_groups
        traces = np.bincount(group, (design.relative_penalty * np.diag(covariance))[penalised], minlength=size)
        edf = (n_classes - 1) * (np.bincount(group, minlength=size) - self.lam * traces)
        squares = np.bincount(group, (design.relative_penalty * (self.coef**2).sum(axis=1))[penalised], minlength=size)
        self.lam = updated(
            self.lam, edf, np.asarray(squares, dtype=np.float64), (SMALLEST_CLASS_LAM, LARGEST_CLASS_LAM)
        )

    def column_step(
        self, j: int, column: ClassColumn, coded: CodedColumn, working: ClassWorkingResponse, *, update_lam: bool
    ) -> Floats:
        """Solve for the effects of a column that is not in the joint design; the change, (K, n)."""
        prior, n_classes = column.priors.main, working.slope.shape[0]
        before = self.posteriors.get(j)
        values = np.zeros((coded.n_codes - 1, n_classes)) if before is None else before.mean
        lam = self.column_lam.get(j)
        if lam is None:
            lam = np.tile(prior.initial_lam(1.0)[:, np.newaxis], n_classes)
        sums = coded.sums(np.column_stack([working.weight, working.slope.T]))
        gram = sums[:, 0, np.newaxis, np.newaxis] * np.eye(n_classes)
        solved = prior.solve(gram, sums[:, :1] * values + sums[:, 1:], lam)
        solved = _zero_sum(solved)
        if update_lam:
            estimated = prior.solve(working.fisher * gram, working.fisher * sums[:, 1:], lam)
            fraction = 1.0 - 1.0 / n_classes  # K functions with sum zero have K - 1 degrees of freedom
            lam = updated_by_order(prior, replace(solved, edf=fraction * estimated.edf), lam, [n_classes])
        self.posteriors[j], self.column_lam[j] = solved, lam
        change = np.vstack([solved.mean - values, np.zeros((1, n_classes))])
        return np.ascontiguousarray(change[coded.codes].T)

    def penalty(self, design: JointDesign) -> float:
        """Half the penalties of all smooth main effects, for the smoothing parameters that they have."""
        if not len(self.lam):
            return 0.0
        lam = np.where(design.group >= 0, self.lam[design.group], 0.0)
        return 0.5 * float((lam * design.relative_penalty) @ (self.coef**2).sum(axis=1))


def _zero_sum(posterior: FunctionPosterior) -> FunctionPosterior:
    """Functions of all classes with sum zero at every code."""
    mean = posterior.mean - posterior.mean.mean(axis=1, keepdims=True)
    smooth, per_code = (
        None if coef is None else coef - coef.mean(axis=1, keepdims=True)
        for coef in (posterior.smooth, posterior.per_code)
    )
    return replace(posterior, mean=mean, smooth=smooth, per_code=per_code)

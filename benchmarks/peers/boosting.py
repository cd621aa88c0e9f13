"""Component-wise boosting (Bühlmann and Yu, 2003), on this library's columns: the paper's GLMBoost and GAMBoost.

Every round fits the residuals by each column alone, a line or a P-spline of four degrees of freedom, and adds a tenth
of the best. All that the rounds need are the columns' cross products, so that their cost does not depend on the rows.
The number of rounds has the least squared error in ten-fold cross-validation.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
from sklearn.model_selection import KFold

from ahofm.columns import Encoder, Linear, Spline
from ahofm.columns.basis import Floats
from ahofm.model import eigenvalues
from ahofm.model.coordinates import Coordinates, coordinates
from ahofm.priors.df import smoothing_parameter_of
from benchmarks.data import numbers
from benchmarks.peers.task import Predict, Task

STEP, ROUNDS, FOLDS, DF = 0.1, 2000, 10, 4.0


@dataclass(frozen=True)
class Learners:
    """One learner per column, in coordinates in which its functions are orthonormal over the rows."""

    encoder: Encoder
    coordinates: tuple[Coordinates, ...]
    shrink: tuple[Floats, ...]

    @staticmethod
    def learn(X: pd.DataFrame, kind: Spline | Linear) -> Learners:
        """Columns with one value have no functions."""
        encoder = Encoder.learn(X, kind)
        found, shrink = [], []
        for book in encoder.codebooks:
            found.append(coordinates(book, center=True))
            s = eigenvalues(book) if book.size else np.zeros(0)
            free = np.count_nonzero(s == 0.0)
            lam = 0.0
            if isinstance(kind, Spline) and len(s) > DF > free:
                lam = smoothing_parameter_of(DF, s, len(X), "hat") / len(X)
            shrink.append(1.0 / (1.0 + lam * found[-1].penalty))
        return Learners(encoder, tuple(found), tuple(shrink))

    def design(self, X: pd.DataFrame) -> Floats:
        """All functions of all columns at rows: (n, functions)."""
        columns = self.encoder.check(X).columns
        blocks = [
            book.evaluate(column) @ of.to_basis + of.centring
            for book, of, column in zip(self.encoder.codebooks, self.coordinates, columns, strict=True)
        ]
        return np.hstack(blocks)

    def path(self, Z: Floats, y: Floats) -> Iterator[Floats]:
        """Coefficients after every round; always the same array."""
        gram, slope = Z.T @ Z, Z.T @ (y - y.mean())
        ends = np.cumsum([of.size for of in self.coordinates])
        column = np.repeat(np.arange(len(ends)), [of.size for of in self.coordinates])
        shrink = np.concatenate(self.shrink) / len(Z)
        coef = np.zeros(len(slope))
        blocks = [slice(end - of.size, end) for end, of in zip(ends, self.coordinates, strict=True)]
        for _ in range(ROUNDS):
            step = shrink * slope
            # Squared residuals fall by 2 step'slope - step'G step; the functions of a column are orthonormal.
            gain = np.bincount(column, step * (2.0 * slope - len(Z) * step), minlength=len(ends))
            best = blocks[int(gain.argmax())]
            coef[best] += STEP * step[best]
            slope -= STEP * (gram[:, best] @ step[best])
            yield coef


def boost(task: Task, kind: Spline | Linear) -> Predict:
    """Find the number of rounds, fit all rows."""
    X, y = numbers(task.train.X), task.train.y
    errors = np.zeros(ROUNDS)
    for fit, aside in KFold(FOLDS, shuffle=True, random_state=task.seed).split(y):
        learners = Learners.learn(X.iloc[fit], kind)
        new = learners.design(X.iloc[aside])
        gram, slope = new.T @ new, new.T @ (y[aside] - y[fit].mean())
        for k, coef in enumerate(learners.path(learners.design(X.iloc[fit]), y[fit])):
            errors[k] += coef @ gram @ coef - 2.0 * slope @ coef
    learners, coef = Learners.learn(X, kind), np.zeros(0)
    for k, found in enumerate(learners.path(learners.design(X), y)):
        coef = found
        if k == errors.argmin():
            break
    return lambda table: np.asarray(y.mean() + learners.design(numbers(table, task.train.X)) @ coef)

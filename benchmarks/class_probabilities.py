"""Several classes with a known truth: are its interactions found, and how large are the errors of the probabilities?

``make bench-class-probabilities`` prints the table and writes benchmarks/results/class_probabilities.csv. Four classes,
ten columns, two of which do nothing; main effects of three columns, two pairs and a triple, each a product of curves
with a loading per class. Errors are compared with those of an oracle, the maximum likelihood estimate in the truth's
own family: it knows which columns have effects and the four functions that each curve is made of. They are those of the
inverse Fisher information (no fit). Both are root mean squares over classes and over new rows.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.polynomial.legendre import legvander
from numpy.typing import NDArray
from scipy.special import softmax

from ahofm import AHOFMClassifier
from ahofm.columns.basis import Floats
from ahofm.explain import top_interactions
from benchmarks.table import Row, finish, require, show

CLASSES, COLUMNS, DEGREES = 4, 10, 4
MAINS = (0, 1, 2)
TERMS = ((1, 3), (2, 4), (5, 6, 7))
"""Columns with main effects, and those of the products."""

MAIN_SIZE, TERM_SIZE = 0.7, 1.2
"""Root mean squares of a class's main effects and products."""

NEW_ROWS = 4_000
MOST_RATIO = 1.5


@dataclass(frozen=True)
class Truth:
    """Linear predictors of all classes.

    Attributes
    ----------
    constants : array of shape (K,)
    mains : array of shape (columns with main effects, degrees, K)
        Coefficients of Legendre polynomials.
    curves : list of arrays of shape (columns of the term, degrees)
    loadings : array of shape (terms, K)
    """

    constants: Floats
    mains: Floats
    curves: list[Floats]
    loadings: Floats

    @classmethod
    def draw(cls, rng: np.random.Generator) -> Truth:
        """Random smooth curves of mean square 1, and loadings that sum to zero over the classes."""

        def centred(*shape: int) -> Floats:
            values = rng.normal(size=(*shape, CLASSES))
            values -= values.mean(axis=-1, keepdims=True)
            return np.asarray(values / np.sqrt(np.square(values).mean(axis=-1, keepdims=True)))

        curves = [np.array([curve(rng) for _ in term]) for term in TERMS]
        shapes = np.array([[curve(rng) for _ in range(CLASSES)] for _ in MAINS]).transpose(0, 2, 1)
        shapes -= shapes.mean(axis=2, keepdims=True)
        return cls(0.3 * centred(), MAIN_SIZE * shapes, curves, TERM_SIZE * centred(len(TERMS)))

    def eta(self, X: Floats) -> Floats:
        """Linear predictors (n, K)."""
        bases = [basis(x) for x in X.T]
        found = self.constants + sum(bases[j] @ coef for j, coef in zip(MAINS, self.mains, strict=True))
        for term, curves, loading in zip(TERMS, self.curves, self.loadings, strict=True):
            found = found + np.prod(values_of(bases, term, curves), axis=0)[:, np.newaxis] * loading
        return np.asarray(found)

    def jacobian(self, X: Floats) -> Floats:
        """Derivatives of the linear predictors by all coefficients and loadings, (n, K, parameters)."""
        bases, unit = [basis(x) for x in X.T], np.eye(CLASSES)
        parts = [np.broadcast_to(unit, (len(X), CLASSES, CLASSES))]
        parts += [np.einsum("nm,kl->nkml", bases[j], unit).reshape(len(X), CLASSES, -1) for j in MAINS]
        for term, curves, loading in zip(TERMS, self.curves, self.loadings, strict=True):
            values = values_of(bases, term, curves)
            parts.append(np.prod(values, axis=0)[:, np.newaxis, np.newaxis] * unit)
            for place, column in enumerate(term):
                others = np.prod(np.delete(values, place, axis=0), axis=0)[:, np.newaxis] * bases[column]
                parts.append(loading[:, np.newaxis] * others[:, np.newaxis])
        return np.concatenate(parts, axis=2)


def curve(rng: np.random.Generator) -> Floats:
    """Coefficients (degrees,) of a curve of mean 0 and mean square 1, less of the wigglier ones."""
    coef = rng.normal(size=DEGREES) / np.arange(1, DEGREES + 1)
    return np.asarray(coef / np.sqrt(np.square(coef).sum()))


def basis(x: Floats) -> Floats:
    """Legendre polynomials of degrees 1 to 4 (n, degrees), orthonormal for a uniform column in [-1, 1]."""
    degrees = np.arange(1, DEGREES + 1)
    return np.asarray(legvander(x, DEGREES)[:, 1:] * np.sqrt(2 * degrees + 1))


def values_of(bases: list[Floats], term: tuple[int, ...], curves: Floats) -> Floats:
    """Curves of a term at the rows, (columns of the term, n)."""
    return np.array([bases[j] @ coef for j, coef in zip(term, curves, strict=True)])


def oracle_error(truth: Truth, X: Floats, new: Floats) -> float:
    """Root mean square error of the probabilities of new rows, by the inverse Fisher information of the rows X.

    Directions without information are those that do not change the truth: a constant added to all classes, and the
    scales of factors against their loadings. The pseudo-inverse leaves them out.
    """
    information = weighted_square(truth.jacobian(X), softmax(truth.eta(X), axis=1))
    inverse = np.linalg.pinv(information, rcond=1e-10, hermitian=True)
    jacobian, p = truth.jacobian(new), softmax(truth.eta(new), axis=1)
    of_p = p[:, :, np.newaxis] * (jacobian - np.einsum("nk,nkt->nt", p, jacobian)[:, np.newaxis])
    return float(np.sqrt(np.einsum("nkt,tu,nku->nk", of_p, inverse, of_p, optimize=True).mean()))


def weighted_square(jacobian: Floats, p: Floats) -> Floats:
    """Fisher's information of the parameters, ``sum_i J_i' (diag p_i - p_i p_i') J_i``."""
    mean = np.einsum("nk,nkt->nt", p, jacobian)
    return np.asarray(np.einsum("nk,nkt,nku->tu", p, jacobian, jacobian, optimize=True) - mean.T @ mean)


def draw_rows(truth: Truth, n_rows: int, rng: np.random.Generator) -> tuple[Floats, NDArray[np.intp]]:
    """Uniform columns, and a class of each row."""
    X = rng.uniform(-1.0, 1.0, size=(n_rows, COLUMNS))
    return X, np.argmax(truth.eta(X) + rng.gumbel(size=(n_rows, CLASSES)), axis=1)


def replication(seed: int, n_rows: int) -> dict[str, float]:
    """A truth, a table and a default fit: errors of probabilities, the terms that are found, processor seconds."""
    rng = np.random.default_rng(seed)
    truth = Truth.draw(rng)
    X, y = draw_rows(truth, n_rows, rng)
    new = rng.uniform(-1.0, 1.0, size=(NEW_ROWS, COLUMNS))
    begun = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = AHOFMClassifier(random_state=0, n_jobs=1).fit(X, y)
    seconds = time.process_time() - begun
    p, found = softmax(truth.eta(new), axis=1), model.predict_proba(new)
    error = float(np.sqrt(np.square(found - p).mean()))
    return {
        "error": error,
        "ratio": error / oracle_error(truth, X, new),
        "divergence": float((p * np.log(p / found)).sum(axis=1).mean()),
        "found": float(terms_found(model)),
        "seconds": seconds,
    }


def terms_found(model: AHOFMClassifier) -> int:
    """How many of the truth's terms are, in the linear predictor of some class, among the strongest three."""
    strongest: set[tuple[str, ...]] = set()
    for label in model.classes_ if model.model_.order > 1 else ():
        strongest |= set(top_interactions(model, len(TERMS), linear_predictor=label).terms)
    names = model.model_.encoder.names
    return sum(tuple(names[j] for j in term) in strongest for term in TERMS)


def rows_of(n_rows: int, found: list[dict[str, float]]) -> list[Row]:
    """Means over replications."""
    mean = {name: float(np.mean([one[name] for one in found])) for name in found[0]}
    return [
        require(f"{n_rows} rows: error of probabilities over the oracle's", mean["ratio"], "", most=MOST_RATIO),
        Row(f"{n_rows} rows: largest of these ratios", max(one["ratio"] for one in found), ""),
        require(f"{n_rows} rows: terms of the truth that are found, of {len(TERMS)}", mean["found"], "", least=2.9),
        Row(f"{n_rows} rows: error of probabilities", mean["error"], ""),
        Row(f"{n_rows} rows: Kullback-Leibler divergence", mean["divergence"], ""),
        Row(f"{n_rows} rows: processor seconds", mean["seconds"], "s"),
    ]


def main() -> int:
    """All numbers of rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=10, help="replications; results are kept from 10 on")
    parser.add_argument("--rows", type=int, nargs="*", default=[2_000, 4_000, 8_000, 16_000])
    parser.add_argument("--seed", type=int, default=0, help="of the first replication")
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    table: list[Row] = []
    for n_rows in given.rows:
        with ProcessPoolExecutor(given.workers) as pool:
            seeds = range(given.seed, given.seed + given.count)
            found = list(pool.map(partial(replication, n_rows=n_rows), seeds))
        table += (rows := rows_of(n_rows, found))
        show(rows)
    return finish("class_probabilities", table, written=given.count >= 10)


if __name__ == "__main__":
    sys.exit(main())

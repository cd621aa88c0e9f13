"""Random models with few codes a column, and the decomposition of their linear predictors by brute force."""

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations, product

import numpy as np

from ahofm.columns import Categorical, Cyclic, Encoder, Linear, RandomWalk, Spline, SplineIID
from ahofm.columns.table import Table
from ahofm.families import Gaussian
from ahofm.model import Model, Predictor, Reason, Trace
from ahofm.orders import PRODUCT

KINDS = [Spline(n_basis=5), RandomWalk(), SplineIID(n_basis=5), Categorical(), Cyclic(n_basis=5), Linear(), None]


def random_model(seed, ranks, n_columns=4, *, centred=False, family=None, loaded=True):
    """A model of columns of random kinds, text and missing values among them, with random coefficients.

    ``loaded``: loadings of any sign and size, others in every linear predictor; else they are one.
    """
    rng = np.random.default_rng(seed)
    n, kinds, columns = 60, [], []
    for j in range(n_columns):
        kind = KINDS[(seed + 3 * j) % len(KINDS)]
        x = rng.choice([0.0, 0.3, 1.0, 1.7], size=n, p=[0.4, 0.3, 0.2, 0.1])
        if j == 1:
            x[rng.random(n) < 0.2] = np.nan
        if kind is None:
            x = np.array([None if np.isnan(v) else f"level {v}" for v in x], dtype=object)
        kinds.append(kind)
        columns.append(x)
    names = tuple(f"c{j}" for j in range(n_columns))
    chosen = {j: kind for j, kind in enumerate(kinds) if kind is not None}
    encoder = Encoder.learn(Table(names, tuple(columns), named=True), chosen)
    width = 1 + sum(ranks.values())
    coef = [rng.normal(size=(book.size, width)) for book in encoder.codebooks]
    level = [rng.normal(size=width) for _ in encoder.codebooks]
    if centred:
        for j, book in enumerate(encoder.codebooks):
            mass = book.mass[:-1] / book.mass.sum()
            level[j] = -mass @ (book.basis @ coef[j])[:-1]
    family = family or Gaussian()
    predictors = []
    for k in range(family.n_eta):
        own = Predictor.of(ranks, 0.7 + k, [c * (1 + k) for c in coef], [v * (1 + k) for v in level])
        loadings = {order: rng.normal(size=rank) * 10.0 ** rng.uniform(-1, 1, rank) for order, rank in ranks.items()}
        if PRODUCT in ranks:  # some constants are zero: such a column is in every term
            means = rng.normal(size=(n_columns, ranks[PRODUCT]))
            own = replace(own, product_means=np.where(rng.random(means.shape) < 0.1, 0.0, means))
        predictors.append(replace(own, loadings=loadings) if loaded else own)
    smoothing_parameters = {order: np.ones(n_columns) for order in (1, *ranks)}
    trace = Trace("none", Reason.CONVERGED, ())
    return Model(encoder, family, tuple(predictors), None, smoothing_parameters, float(n), trace)


@dataclass(frozen=True)
class BruteForce:
    """All combinations of the codes of all columns, their probabilities, and the linear predictor there."""

    model: Model
    k: int = 0

    @cached_property
    def codes(self):
        sizes = [range(book.n_codes - 1) for book in self.model.encoder.codebooks]
        return np.array(list(product(*sizes)))

    @cached_property
    def table(self):
        columns = []
        for book, codes in zip(self.model.encoder.codebooks, self.codes.T, strict=True):
            levels = book.support.values.tolist()
            missing = None if book.support.values.dtype == object else np.nan
            values = [*levels, *([missing] if book.learns_missing else [])]
            column = np.array([values[code] for code in codes], dtype=book.support.values.dtype)
            columns.append(column)
        return Table(self.model.encoder.names, tuple(columns), named=True)

    @cached_property
    def probability(self):
        masses = [book.mass[:-1] / book.mass.sum() for book in self.model.encoder.codebooks]
        return np.prod([mass[codes] for mass, codes in zip(masses, self.codes.T, strict=True)], axis=0)

    @cached_property
    def eta(self):
        return self.model.eta(self.table)[:, self.k]

    def mean_given(self, subset):
        """The linear predictor's mean over the columns that are not in a set, at every combination."""
        keys = {tuple(row): None for row in self.codes[:, list(subset)]}
        number = {key: at for at, key in enumerate(keys)}
        group = np.array([number[tuple(row)] for row in self.codes[:, list(subset)]])
        mass = np.bincount(group, weights=self.probability)
        return (np.bincount(group, weights=self.probability * self.eta) / mass)[group]

    @cached_property
    def means(self):
        p = self.codes.shape[1]
        return {s: self.mean_given(s) for size in range(p + 1) for s in combinations(range(p), size)}

    def term(self, subset):
        """Of the functional analysis of variance, by inclusion and exclusion."""
        return sum(
            (-1) ** (len(subset) - size) * self.means[part]
            for size in range(len(subset) + 1)
            for part in combinations(subset, size)
        )

    def variance(self, subset):
        return float(self.probability @ self.term(subset) ** 2)

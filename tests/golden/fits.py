"""The golden fits: small ones that take every way through the code of fitting. All names of arguments are here.

A fit is one line of ``FITS``: whose target, which columns of how many rows, and what the estimator is told.
"""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ahofm import AHOFMClassifier, AHOFMRegressor, Categorical, Cyclic, Linear, RandomWalk, Spline, SplineIID
from ahofm.families import Gamma, Gaussian, NegativeBinomial, Quantile, Tweedie
from ahofm.fit import Candidate
from tests.golden.tables import NEW_ROWS, draw, target

NUMBERS = ("plain", "tied", "step")
EVERY = (*NUMBERS, "hour", "tree", "flag", "gap")
UNIQUE = (*NUMBERS, "flag", "gap")
"""Columns whose penalties have distinct eigenvalues, see ``KINDS``."""

CLASSES = ("binary", "rare", "class")

KINDS = {
    "plain": Spline(n_basis=8, outside="linear"),
    "tied": SplineIID(n_basis=6),
    "step": RandomWalk(),
    "hour": Cyclic(period=24.0, n_basis=6),
    "tree": Categorical(),
    "flag": Linear(),
    "gap": Spline(n_basis=6, knots="uniform"),
}
"""One of each. Levels and cycles have penalties with equal eigenvalues, whose eigenvectors are any basis of a space:
where smoothing parameters are given, factors start at random in coordinates that LAPACK has picked, and another one
leads to another optimum. Main effects have one optimum, and learned smoothing parameters another start."""


@dataclass(frozen=True)
class Fit:
    """One golden fit.

    Attributes
    ----------
    options : dict
        Arguments of the estimator.
    target : str
        See ``tests.golden.tables.target``.
    table : tuple of str
        Its columns.
    n : int
        Rows.
    weight : "none", "counts" (0 to 3) or "relative"
    offset : bool
    pieces : bool
        Whether rows come in two pieces.
    band : bool
        Whether standard deviations and degrees of freedom are kept too.
    """

    options: Mapping[str, Any]
    target: str = "gaussian"
    table: Sequence[str] = NUMBERS
    n: int = 200
    weight: str = "none"
    offset: bool = False
    pieces: bool = False
    band: bool = False

    def fitted(self):
        """The fitted estimator, the table of new rows and their offset."""
        X, eta = draw(self.n, seed=7)
        X, y, n = X[list(self.table)], target(self.target, X, eta, seed=7), self.n
        uniform = np.round(np.random.default_rng(8).random((n + NEW_ROWS, 2)), 3)
        weight = {"none": None, "counts": np.floor(4.0 * uniform[:, 0]), "relative": 0.2 + uniform[:, 0]}[self.weight]
        offset = uniform[:, 1] if self.offset else None
        cls = AHOFMClassifier if self.target in CLASSES else AHOFMRegressor
        estimator = cls(random_state=3, n_jobs=1, **self.options)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of few iterations, and of dispersion
            for part in (slice(0, n // 2), slice(n // 2, n)) if self.pieces else (slice(0, n),):
                given = [None if values is None else values[part] for values in (weight, offset)]
                (estimator.partial_fit if self.pieces else estimator.fit)(X[part], y[part], *given)
        return estimator, X[n:], None if offset is None else offset[n:]


ONE = {"n_members": 1, "factor_prior": "spline", "order": 2, "rank": 2}
"""Learned smoothing parameters without a search: one member."""

PRODUCT = Candidate("spline", 0.5, 0.5, product=True)
PRODUCTS = {"n_members": 1, "factor_prior": (PRODUCT,), "rank": 2}
"""Product factors: all orders at once."""

GIVEN = {"order": 2, "rank": 2}
"""For solvers with given smoothing parameters."""

FITS = {
    # the default, which tries spline, random-walk and spline-plus-iid interactions and mixes members; its candidates
    "default": Fit({"rank": 2}, n=150, band=True),
    "default, text and gaps": Fit({"rank": 2, "max_iter": 20}, table=("plain", "tied", "tree", "gap"), n=120),
    "default, few rows": Fit({}, n=40),
    "default, uneven noise": Fit({"order": 2, "rank": 2}, "uneven", ("plain", "tied"), 2_100),
    "default, two classes": Fit({"rank": 2}, "binary", ("plain", "gap")),
    "default, three classes": Fit({"order": 2, "rank": 2}, "class", ("plain", "tree")),
    "default, rare events": Fit({"order": 2}, "rare", ("plain", "tied"), 600),
    "default, order chosen": Fit({"order": "auto", "rank": 1}, n=150),
    "spline": Fit({"factor_prior": "spline", "rank": 2}, band=True),
    "random walk": Fit({"factor_prior": "random_walk"}),
    "spline plus iid": Fit({"factor_prior": "spline_iid"}, n=150),
    "four members": Fit({"n_members": 4, "factor_prior": "spline", "order": 2}),
    # orders, and settings of learned smoothing parameters
    "additive": Fit({"order": 1}, table=EVERY, band=True),
    "order 2": Fit(ONE, table=EVERY),
    "order 3": Fit(ONE | {"order": 3}, table=EVERY, band=True),
    "order 4 without triples": Fit(ONE | {"order": 4, "rank": {2: 2, 4: 1}}, table=EVERY),
    "tempered": Fit(ONE | {"tempering": 0.3, "max_iter": 10, "tol": 1e-3}),
    "not centred, pruned, binned": Fit(ONE | {"center": False, "prune": True, "max_codes": 12}),
    # product factors
    "products": Fit(PRODUCTS, table=UNIQUE, band=True),
    "products, counts": Fit(PRODUCTS | {"family": "poisson", "max_iter": 15}, "count"),
    "products beside orders": Fit({"rank": 2, "factor_prior": (Candidate("spline", 0.7, 0.7), PRODUCT)}, n=300),
    # kinds of columns, with missing values
    "kinds": Fit(ONE | {"columns": KINDS}, table=EVERY),
    "kinds, given smoothing parameters": Fit(
        {"order": 1, "columns": KINDS, "solver": "lbfgs", "tol": 1e-8}, table=EVERY
    ),
    "factorization machine": Fit(ONE | {"columns": Linear()}),
    # weights and offsets
    "weights that count": Fit(ONE, weight="counts"),
    "weights that are relative": Fit(ONE, weight="relative", offset=True, band=True),
    "weights and offset, given smoothing parameters": Fit(GIVEN | {"solver": "lbfgs"}, weight="relative", offset=True),
    # other solvers; subsample fits a sample of the rows, then refines on all
    "lbfgs": Fit(GIVEN | {"solver": "lbfgs", "order": 3}),
    "lbfgs, degrees of freedom": Fit(GIVEN | {"smoothing": "df", "df": {1: 6.0, 2: 3.0}, "df_kind": "hat"}),
    "bcd": Fit(GIVEN | {"solver": "bcd"}, table=UNIQUE),
    "bcd, levels": Fit({"order": 1, "solver": "bcd"}, table=EVERY),
    "adam": Fit(GIVEN | {"solver": "adam", "max_iter": 60}),
    "subsample": Fit({"solver": "subsample", "rank": 2, "max_iter": 15}, table=("plain", "tied", "tree"), n=300),
    "subsample, counts": Fit({"solver": "subsample", "order": 2, "rank": 2}, "count", n=400),
    "subsample, more rows than a sample": Fit(
        ONE | {"solver": "subsample", "max_iter": 8}, table=("tied", "step"), n=50_400
    ),
    "two pieces": Fit(GIVEN | {"solver": "lbfgs"}, table=UNIQUE, pieces=True),
    "two pieces, learned smoothing parameters": Fit(ONE, table=EVERY, pieces=True),
    # families
    "gaussian, log link": Fit(ONE | {"family": Gaussian("log")}, "positive"),
    "bernoulli": Fit(ONE, "binary", band=True),
    "quasi binomial": Fit(ONE | {"family": "quasi_binomial"}, "share"),
    "multinomial": Fit(ONE, "class"),
    "multinomial, given smoothing parameters": Fit(GIVEN | {"solver": "lbfgs", "max_iter": 30}, "class"),
    "poisson": Fit(ONE | {"family": "poisson"}, "count", offset=True, band=True),
    "poisson, given smoothing parameters": Fit(GIVEN | {"family": "poisson", "solver": "bcd"}, "count", offset=True),
    "quasi poisson": Fit(ONE | {"family": "quasi_poisson"}, "wide count"),
    "negative binomial": Fit(ONE | {"family": "negative_binomial"}, "wide count"),
    "negative binomial, given size": Fit(ONE | {"family": NegativeBinomial(2.0)}, "wide count", weight="counts"),
    "gamma": Fit(ONE | {"family": "gamma"}, "positive"),
    "gamma, inverse link": Fit(ONE | {"family": Gamma("inverse"), "order": 1}, "positive"),
    "tweedie": Fit(ONE | {"family": Tweedie(None)}, "claim"),
    "tweedie, given power": Fit(GIVEN | {"family": Tweedie(1.5), "solver": "lbfgs"}, "claim"),
    "quantile": Fit(ONE | {"family": Quantile(0.8)}, "outliers"),
    "laplace": Fit(ONE | {"family": "laplace"}, "outliers"),
    "huber": Fit(ONE | {"family": "huber"}, "outliers"),
    "location and scale": Fit(ONE | {"family": "gaussian_location_scale"}, "uneven", band=True),
    "ordinal": Fit(ONE | {"family": "ordinal"}, "grade"),
    "beta": Fit(ONE | {"family": "beta"}, "fraction"),
    "zero-inflated poisson": Fit(ONE | {"family": "zero_inflated_poisson"}, "excess zeros"),
    "log-normal": Fit(ONE | {"family": "log_normal"}, "positive"),
    "log-logistic": Fit(ONE | {"family": "log_logistic"}, "positive"),
    "weibull": Fit(ONE | {"family": "weibull"}, "positive", band=True),
}

KEPT = Fit(PRODUCTS | {"columns": KINDS | {"tied": Linear()}}, table=EVERY, n=250)
"""Whose model is kept as a file, one for every version of the format."""

"""Constants of the initial values of factors."""

from __future__ import annotations

START_STD = 0.3
"""Standard deviation of random coefficients, in units of the residual's."""

UNSUPPORTED_EIGENVALUE_FACTOR = 0.1
"""Of eigenvalues that random signs reach. Measured: Diabetes 58.2 to 54.9 (spline_iid, order 2), no cost elsewhere."""

NULL_GRADIENTS = 3
"""Gradients with random signs whose largest eigenvalues are averaged. Not varied."""

START_HALVINGS, START_ROWS = 20, 20_000
"""Of the terms of new factors, at most; rows for the covariance of residuals with products, more are thinned."""

COVARIANCE_ROWS = 8_192
"""Rows whose functions of all columns are in memory at a time."""

START_PENALTY = 10.0
"""Random coefficients have variance ``1 / (1 + 10 w)``, w the eigenvalue of the penalty relative to its mean: smooth
functions. Not varied."""

RANDOM_START_FRACTION = 0.1
"""Of the residual's standard deviation: random coefficients beside leading eigenvectors, against exact symmetry."""

START_LOSS_RISE, START_TERM_STD = 0.05, 0.2
"""For other losses than squares: new factors are halved until they raise the remaining loss by at most the first, and
terms of triples and higher orders begin with the second times the standard deviation of the linear predictor."""

START_ETA_STD = 0.1, 1.0
"""Bounds of that standard deviation."""

INITIAL_LEVEL_LAM = 10.0
"""Initial smoothing parameter of independent effects beside a spline, over that of functions of the same mean square:
the spline comes first. Not varied."""

MOST_DENSE_FUNCTIONS = 1_000
"""Most functions of all columns together, of 76 smooth columns, whose covariance is decomposed as a dense matrix, which
is cubic in them. Beyond, Lanczos iterations find the leading eigenvectors alone. Measured with 1,500 rows: .6 and .1
seconds for 60 columns, 1.3 seconds for 500."""

LANCZOS_TOL, FEWEST_LANCZOS_VECTORS = 1e-6, 40
"""Largest residual of an eigenvector relative to its eigenvalue, whose own error is about its square; least number of
vectors between restarts. A tolerance of 1e-3 takes nearly as long, as leading eigenvalues are far apart."""

SCREENED_FUNCTIONS, SCREENED_ROWS, LEAST_SCREENING_RATIO = 2, 4_000, 1.3
"""With that many functions, pairs of columns are compared first: in so many of the smoothest functions of each, at
about so many rows; those stand out that are larger by the last factor than the largest of gradients with random signs.
Measured with one product beside independent columns, 200 rows x 200 columns to 1,500 x 500: 1.3 to 5.2, without a
product .9 to 1.1; the leading eigenvectors of all columns did not have the product in most of these."""

"""Constants of the initial values of factors."""

from __future__ import annotations

START_STD = 0.3
"""Standard deviation of random coefficients, in units of the residual's."""

UNSUPPORTED_EIGENVALUE_FACTOR = 0.1
"""Of eigenvalues that random signs reach. Measured: Diabetes 58.2 to 54.9 (spline_iid, order 2), no cost elsewhere."""

START_HALVINGS, START_ROWS = 20, 20_000
"""Of the terms of new factors, at most; rows for the covariance of residuals with products, more are thinned."""

START_STIFFNESS = 10.0
"""Random coefficients have variance ``1 / (1 + 10 stiffness)``, stiffness relative to its mean: smooth functions. Not
varied."""

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

COVARIANCE_ROWS = 4_096
"""Rows whose products are summed at a time: they fit the cache."""

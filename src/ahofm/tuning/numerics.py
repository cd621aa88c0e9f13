"""Constants of numerical methods: bounds against division by zero, jitters, tolerances. None was varied.

They are far from what determines a fit: results depend on them by rounding, or where data are degenerate.
"""

from __future__ import annotations

LEAST_MASS = 1e-12
"""Fraction of the weight at a code, where it is a divisor."""

CENTRING_JITTER = 1e-12
"""Of the trace, added to the covariance matrix of the functions' means before it is inverted."""

MAIN_JITTER, LEAST_MAIN_DISPERSION = 1e-13, 1e-12
"""Of the mean diagonal, added to the normal equations of smooth main effects; and the least dispersion in their first
solves, in units of the target's variance."""

LEAST_MAIN_SQUARE = 1e-6
"""Mean square of a main effect from which its smoothing parameters start."""

LEAST_PRODUCT_VARIANCE = 1e-9
"""Added to the variance of an initial product, in the ridge of the regression on it."""

DF_BRACKET_STEP, DF_ROOT_TOL = 5.0, (1e-13, 1e-14)
"""Steps of log(smoothing parameter) until the degrees of freedom are bracketed; absolute and relative tolerance of the
root."""

SURFACE_DF_BISECTIONS = 40
"""Bisections of the interval of log(smoothing parameter) in which surfaces have their initial degrees of freedom."""

SHORTEST_STEP, STEP_RATIOS = 1e-3, (0.1, 0.5)
"""Of a line search by quadratic interpolation: the step at which it gives up, and bounds of the ratio of one step to
the one before (Nocedal and Wright, 2006, section 3.5)."""

STACKING_HALVINGS, STACKING_TOL, SUM_PENALTY = 6, 1e-3, 1e3
"""Of iterated least squares for stacking weights: halvings of a step at most, the change of all weights below which it
ends, and the weight of the equation "the sum is one", relative to all rows together."""

CLASS_STACKING_START, CLASS_STACKING_TOL = 0.9, 1e-7
"""Of SLSQP for the stacking weights of several classes: the sum of the initial weights, inside the constraint that it
is at most one, and the tolerance."""

SHOWN_WEIGHT = 1e-9
"""Weight of the constant in a stack that is reported."""

POLL_SECONDS = 0.1
"""Between two looks at whether fits on other threads have ended; Ctrl-C is seen in between."""

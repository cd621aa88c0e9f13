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

MAIN_WEIGHTS_CHANGE = 0.02
"""Sum of absolute changes of the working weights, relative to their sum, up to which steps of the smooth main effects
keep the Gram matrix of the design: gradients are exact, curvatures a little old. It is computed again in any case when
row states are built. Measured, a smooth fit to 24,000 rows of 23 columns: processor time .71. With .05: .61, but linear
predictors of separated classes grow more slowly; log-losses of twelve sets of two classes 1.0008 +- .0010."""

LEAST_MAIN_SQUARE = 1e-6
"""Mean square of a main effect from which its smoothing parameters start."""

LEAST_PRODUCT_VARIANCE = 1e-9
"""Added to the variance of an initial product, in the ridge of the regression on it."""

DF_BRACKET_STEP, DF_ROOT_TOL = 5.0, (1e-13, 1e-14)
"""Steps of log(smoothing parameter) until the degrees of freedom are bracketed; absolute and relative tolerance of the
root."""

SURFACE_LAM_HALVINGS = 39
"""Halvings of the interval of log(smoothing parameter) in which surfaces have their initial degrees of freedom."""

MOST_REPEATED_LOGIT, LEVEL_BISECTIONS = 700.0, 60
"""Largest linear predictor of a repeated row, whose exponential is finite; and bisections between it and its negative
until the expected level is the one that its copies had."""

BALANCE_TOL, BALANCE_STEPS, LARGEST_BALANCE_SHIFT = (1e-14, 8.9e-16), 500, 1e3
"""Of the intercept that makes predictions add up to the targets: absolute and relative tolerance of the root, most
iterations, and the largest shift, in units of the largest target or, with a logarithmic link, of 1."""

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

ROUNDED_SHARE, ROUNDED_BITS, EXACT_COEFFICIENTS = 2e-7, (8, 25), 2**15
"""Of large models: the root mean square by which rounding their coefficients changes a linear predictor, relative to
its own; the least and the largest number of bits of a function that are kept; and the number of coefficients up to
which all digits are kept: files have a quarter of a megabyte at most then. Measured, default fits to California
housing, power plant, wine (also its classes), bike, concrete and vowel: linear predictors of training rows moved by at
most 1.0e-6 standard deviations, by .4 to 1.7e-7 in the root mean square. With 2^-23 of each function: 3.8e-6, .8 to
5.7e-7, and a tenth to a third more bytes; with 1e-6 in place of 2e-7: 6e-6, and a sixth less."""

WHOLE_TOL = 1e-9
"""Relative distance to a whole number up to which a target is one: targets are converted to units of a fit and back."""

ROUNDING_IN_DISPERSION = 1.01
"""A dispersion that falls by more than this factor when row states are computed again had rounding errors in it.
Measured, bike sharing, quasi-Poisson, order 3: 98.2 after the last sweep of a candidate, 5.6 after they were computed
again, at the same loss; fits without such rows move by less than 1.5e-4."""

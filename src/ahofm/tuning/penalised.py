"""Constants of penalised fits: default degrees of freedom, and their solvers."""

from __future__ import annotations

MAIN_DF, FACTOR_DF = 10.0, 8.0
"""Default degrees of freedom of main effects and of factors. A compromise: on simulated data, factors do better with 6
for few noisy rows and with 12 for many clean ones."""

LARGEST_DF_FRACTION = 0.9999
"""The most that defaults take of a column's penalised functions. The effect of a column with two values, which has a
single function, is then shrunk by one percent; in a product of factors a tenth of that changes the fit."""

INTERACTION_STD = 0.1
"""Standard deviation of all terms of one order at the start, for a linear predictor whose unit is 1."""

MAX_ITER, TOL = 1000, 1e-4
"""Default limits of penalised fits."""

ADAM_EPSILON = 1.0
"""Beside the root of a gradient's second moment. Gradients are of order 1 here: targets and functions have unit
variance. A small epsilon would move every coefficient equally far, the thousand that only fit noise too: on splits not
used for any reported result, the error with 1e-8 was up to twenty times that with 1, and never clearly smaller."""

PENALISED_RANK = 5
"""Factors of each order when none are given: nothing prunes those that the rows do not support."""

GAIN_WINDOW, FLAT_SLOPE = 10, 1e-3
"""A fit has converged when its last so many iterations gained less than ``tol`` of the whole gain, or when a Newton
step would gain less than this fraction of that. Not varied."""

SUFFICIENT_SLOPE, FLATTER_SLOPE, LINE_SEARCH_STEPS = 1e-4, 0.9, 40
"""Weak Wolfe conditions with the usual values for quasi-Newton steps (Nocedal and Wright, 2006, section 3.1), of
sufficient decrease and of curvature; steps of a line search at most."""

LEAST_BRACKET = 1e-10
"""Relative length of the interval of step lengths at which a line search ends."""

LEAST_CURVATURE = 1e-12
"""Of a move that L-BFGS remembers, relative to the squared change of the gradient: less is rounding."""

ADAM_DECAYS = 0.9, 0.999
"""Of the running means of gradients and of their squares, as published (Kingma and Ba, 2015)."""

BATCHES, SMALLEST_BATCH, LARGEST_BATCH = 32, 32, 8_192
"""Mini-batches of an epoch, and rows of one at least and at most. Not varied."""

BLOCK_HALVINGS, BLOCK_JITTERS = 30, (1e-12, 1e-9, 1e-6, 1e-3)
"""Halvings of a block's Newton step at most; what is added to its diagonal, relative to the largest entry, until the
block is positive definite."""

"""Every constant of fits to several classes: its value, what it is, and why; others are in ``ahofm.tuning``."""

from __future__ import annotations

LEAST_CLASS_WEIGHT, MOST_CLASS_WEIGHT = 0.05, 0.5
"""Limits of a row's weight; the second is the bound of the second derivatives."""

CLASS_MAIN_LAM = 3.0, 1.0
"""First smoothing parameters of main effects: of what is wiggly, and of lines and levels."""

SMALLEST_CLASS_LAM, LARGEST_CLASS_LAM = 1e-3, 1e6
"""Of main effects."""

FARTHEST_CLASS_VALUE = 3.0
"""Bounds of shared curves, in units of their root mean square."""

LOADING_LAM = 1.0
"""Penalty of squared loadings. The scale of curves against loadings is free, and their smoothing parameters are not."""

MAIN_CLASS_STEPS, LEARNING_FROM, MAIN_CLASS_TOL = 30, 3, 2e-4
"""Steps of main effects before factors, at most; from which of them on smoothing parameters are learned; they end when
the loss changes by less than that fraction."""

SHARED_WARM_SWEEPS, SHARED_TOL = 5, 2e-3
"""First sweeps with smoothing parameters as they are and partners taken as known; sweeps end after three that change
the loss by less than that fraction."""

LOADING_RIDGE = 0.05
"""Of the first loadings, relative to the mean squares of the terms. Not varied."""

LEAST_LOADING = 0.02
"""Root mean square of a factor's loadings at the start, at least."""

LEAST_TEMPERING_LOSS = 1e-9
"""Of constants, to compare the loss of main effects with."""

LEAST_CLASS_LOSS = 0.02
"""Mean loss that changes are compared with, where classes separate and losses go to zero."""

RISE = 1.1
"""Times the loss before a sweep: after a larger one rows are weighted by the bound, with which losses cannot rise."""

# Candidates, and how validation rows choose between them

LEARNED_RANK, LEARNED_SWEEPS = 16, 30
"""Factors of each order where smoothing parameters are learned, and sweeps at most."""

FIXED_SWEEPS = 12
"""Sweeps, at most, where smoothing parameters stay as they are: validation rows choose."""

MORE_CURVES, MORE_CURVES_ROWS = 32, 400
"""Factors of pairs of a candidate with more of them, which is tried from so many rows on."""

SWEEPS_JUDGED = (1, 2, 3, 4, 6, 8, 10, 12)
"""Numbers of sweeps after which validation rows are predicted."""

PATIENCE = 2
"""Sweeps go on to so many times the number that was best, and one more: a mean of several starts wants more of them
than each of these does."""

SEARCH_STARTS, FIXED_STARTS, LEARNED_STARTS = 2, 4, 2
"""Starts of a candidate in the search, and of those with weight in the fit to all rows, whose mean is the model."""

CLASS_FOLDS, CLASS_FOLDED_ROWS = 3, 3_000
"""Folds up to so many rows; beyond, one part of the rows is fitted and another one predicted."""

CLASS_SEARCH_ROWS, CLASS_VALIDATION_ROWS = 8_000, 20_000
"""Rows that candidates are fitted to, and validation rows, at most, where there are no folds."""

OUT_OF_RACE, OTHER_SCALE = 1.15, 1.1
"""Times the least loss on the first validation rows. Candidates that have more than the first are not fitted again; a
scale whose best candidate has more than the second is not tried with dearer ones. A difference within its standard
error is none."""

EQUAL_CLASS_WEIGHTS_ROWS = 1.0
"""Prior for equal weights of all candidates, in units of rows."""

CLASS_BASIS_SIZE = 10
"""Functions of a column's spline, up to ``BASIS_ROWS`` rows. Measured on splits 301 and 302 of vowel, segment, glass:
log-losses with 10 for 14 are .92 to 1.12 times as large, in half of the time; 8 lost a third on one split of vowel."""

FEWEST_CLASS_ROWS = 50
"""Below, there are no validation rows: smoothing parameters are learned, on the scale of ranks."""

LIKELY_CLASS_SWEEPS = 0.7
"""Fraction of the most sweeps that fits usually make."""

"""Constants of how noise differs between rows, and of errors of new rows; see ``ahofm.tuning``."""

from __future__ import annotations

VARIANCE_ROWS = 5_000
"""Most rows that the variance model is fitted to: it has main effects only."""

LEAST_ERROR = 0.01
"""Least absolute error in the variance model, relative to the root mean square: the gamma family needs positive
targets."""

LEAST_STD_OF_LOG_STD = 0.2
"""Standard deviation of the logarithms of standard deviations, below which rows are not weighted."""

FEWEST_VARIANCE_ROWS = 100
"""Validation rows from which on a variance model is fitted for intervals of new targets."""

MEAN_BINS, MEAN_BIN_ROWS, MEAN_SHRINKAGE_ROWS = 20, 50, 10.0
"""Of the dependence of errors on the mean: bins at most, rows of a bin at least, and rows whose ratio is 1."""

ERROR_LEVELS, FEWEST_ROWS_BEYOND_QUANTILE = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.975, 0.99, 0.995, 0.999), 5
"""Levels at which quantiles of errors on validation rows are known, as far as so many rows are beyond."""

EQUAL_ERRORS_FRACTION = 2.0 / 3.0
"""Least fraction of all rows for which fits to a part of them have errors as large, relative to their dispersion, as a
fit to all rows. On some of splits 200 to 205 of eleven sets, with parts of two thirds and four fifths, intervals then
cover about 95.6 % on average; about 94 % if what is beyond the dispersion were inversely proportional to the number of
rows."""

CONCORDANCE_ROWS = 3_000
"""Validation rows at most whose pairs are compared."""

SCALE_ORDER = 2
"""Highest order of interactions in the standard deviation of ``GaussianLocationScale``."""

INTERVAL_SCORE_LEVEL, LOG_STD_FACTORS = 0.95, 11
"""Level of the intervals whose score on validation rows determines the factor of a variance model's log standard
deviations, and number of such factors tried from 0 to 1."""

LARGEST_WEIGHT_RATIO = 20.0
"""Largest ratio of a weight to the median weight, and of the median to a weight."""

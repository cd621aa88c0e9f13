"""Every constant of fits to several classes: its value, what it is, and why; others are in ``ahofm.tuning``."""

from __future__ import annotations

LEAST_CLASS_WEIGHT, MOST_CLASS_WEIGHT = 0.05, 0.5
"""Bounds of a row's weight; the upper one is the bound of the second derivatives."""

CLASS_MAIN_LAM = 3.0, 1.0
"""Initial smoothing parameters of main effects: of penalised coordinates, and of lines and levels."""

SMALLEST_CLASS_LAM, LARGEST_CLASS_LAM = 1e-3, 1e6
"""Bounds of the smoothing parameters of main effects."""

LARGEST_CLASS_VALUE = 3.0
"""Bounds of shared curves, in units of their root mean square."""

LOADING_LAM = 1.0
"""Penalty of squared loadings: it fixes the scale of loadings against that of curves, which the likelihood does not."""

MAIN_CLASS_STEPS, FIRST_LEARNING_STEP, MAIN_CLASS_TOL = 30, 3, 2e-4
"""Steps of main effects before factors, at most; from which of them on smoothing parameters are learned; they end when
the loss changes by less than that fraction."""

SHARED_WARM_SWEEPS, SHARED_FEWEST_SWEEPS, SHARED_TOL = 5, 9, 2e-3
"""First sweeps with fixed smoothing parameters and no variance of the partners; fewest sweeps of learned fits; these
end after ``CONVERGED_SWEEPS`` that change the loss by less than that fraction. With 9 for 13 as the fewest, the
log-loss of 6 sets and two simulations, splits 400 to 405, is .9992 +- .0020 times as large, contraceptive's time .8."""

LOADING_RIDGE = 0.05
"""Ridge of the initial loadings, relative to the mean squares of the terms. Not varied."""

LEAST_LOADING = 0.02
"""Least root mean square of a factor's initial loadings."""

LEAST_TEMPERING_LOSS = 1e-9
"""Lower bound of the loss of constants, by which the loss of main effects is divided."""

LEAST_CLASS_LOSS = 0.02
"""Lower bound of the mean loss that changes are relative to, where classes separate and losses go to zero."""

MOST_LOSS_RATIO = 1.1
"""Ratio of the losses after and before a sweep above which rows get the weight of the bound, which cannot raise it."""

# Candidates, and how validation rows choose between them

LEARNED_RANK, LEARNED_SWEEPS = 16, 30
"""Factors of each order where smoothing parameters are learned, and sweeps at most."""

SCREENED_CLASS_FUNCTIONS, SCREENED_CLASS_ROWS, MOST_SCREENED_TRIPLES = 2, 4_000, 250_000
"""Functions per column, and rows, whose products of three are looked at for starts of triples; and the largest third
power of the number of functions for which they are: up to 31 columns, less than a second."""

TRIPLE_START_SIZE = 0.6
"""Root mean square of the three functions that a triple starts from. Not varied."""

CLASS_PRODUCT_RANK, PRODUCT_TEMPERING_POWER = 16, 2
"""Product factors of several classes, and the power of the tempering of pairs that is theirs. Measured on splits 400
and 401 (mean of two starts) of car, balance and glass (ranks): log-loss .022, .041; .114, .131; .62, 1.13. Without
tempering .023, .040; .111, .130; .70, 1.31; with that of pairs .030, .050; .116, .132; .79, .78, which is no better
than pairs. 8 factors, without tempering: .044, .038; .108, .119; .74, 1.21."""

CLASS_CONSTANT_PRECISION, CLASS_PRODUCT_START_STD = 0.01, 0.5
"""Prior precision of the constants of product factors, and the standard deviation of the functions that they start
from, relative to their constant. Measured as above: car .092, .087 with a precision of 1, .027, .036 with .1; standard
deviations of .7 and 1 are as good; .37 is worse (.076 for .044 with tempering)."""

LEAST_CLASS_PRODUCT_SCALE = 1e-3
"""Root mean square of a product factor's new function below which the factor has vanished and is not scaled to one:
variances, which are relative to it, would be huge."""

FIXED_SWEEPS = 12
"""Sweeps, at most, where smoothing parameters stay as they are: validation rows choose."""

WIDE_CLASS_RANK, WIDE_CLASS_ROWS = 32, 400
"""Factors of pairs of a candidate with more of them, which is tried from so many rows on."""

SWEEPS_JUDGED = (1, 2, 3, 4, 6, 8, 10, 12)
"""Numbers of sweeps after which validation rows are predicted."""

PATIENCE = 2
"""Sweeps end at ``PATIENCE`` times the best number so far, plus one: the mean of several starts is best after more
sweeps than a single start."""

SEARCH_STARTS, FIXED_STARTS, LEARNED_STARTS = 2, 4, 2
"""Starts of a candidate in the search, and of those with weight in the fit to all rows, whose mean is the model;
learned candidates that do not have the most weight have one. With two of these, too, the log-loss of balance, splits
400 to 415, is .999 +- .004 times as large, that of glass .994 +- .005, of contraceptive and vowel the same."""

CLASS_FOLDS, CLASS_FOLDED_ROWS = 3, 3_000
"""Number of folds, up to so many rows; beyond, there is one part to fit and one to validate."""

CLASS_SEARCH_ROWS, CLASS_VALIDATION_ROWS = 8_000, 20_000
"""Rows that candidates are fitted to, and validation rows, at most, where there are no folds."""

RACE_LOSS_RATIO, SCALE_LOSS_RATIO = 1.15, 1.02
"""Times the least loss on the first validation rows. Candidates that have more than the first are not fitted again;
differences within a standard error do not count. A scale whose best candidate has more than the second is not tried
with more expensive ones: with 1.02 for 1.1, or a standard error, the log-loss of 6 sets and two simulations, splits 400
to 405, is .997 +- .003 times as large, in .85 to 1 of the processor time."""

PRODUCT_LOSS_RATIO = 0.95
"""Times the loss of main effects on the first validation rows, above which product factors are not fitted again: where
there are no interactions of many columns they become main effects, at the cost of the dearest candidate."""

RACED_WEIGHT = 0.03
"""Stacking weight on the first validation rows below which a candidate is not fitted to the other parts, where others
with interactions have more. Measured on 6 sets and two simulations, splits 400 to 405: log-loss .9997 +- .0026 times as
large, in .6 to 1 of the processor time."""

EQUAL_CLASS_WEIGHTS_ROWS = 1.0
"""Prior for equal weights of all candidates, in units of rows."""

CLASS_BASIS_SIZE = 10
"""Functions of a column's spline, up to ``SMALL_BASIS_ROWS`` rows. Measured on splits 301 and 302 of vowel, segment,
glass: log-losses with 10 for 14 are .92 to 1.12 times as large, in half of the time; 8 lost a third on one split of
vowel."""

FEWEST_CLASS_ROWS = 50
"""Below, there are no validation rows: smoothing parameters are learned, on the scale of ranks."""

LIKELY_CLASS_SWEEPS = 0.7
"""Fraction of the most sweeps that fits usually make."""

RARE_CLASS_ROWS = 5
"""Rows of a class below which a fit warns: about one in each fold, too few to estimate a curve."""

# Two classes, and other losses than squares

FALLBACK_COEFFICIENT_SWEEPS = 30
"""Instead of ``COEFFICIENT_SWEEPS`` for losses that are not quadratic, where interactions were fitted and only main
effects have stacking weight. Measured on splits 200 to 205 of 12 sets of two classes: log-loss after 8 sweeps in all,
and after up to 308, differs by .0001 +- .0002; where smooth parts and random walks share an effect, sweeps can be
hundreds."""

NON_DISPERSED_FOLDED_ROWS = 8_000
"""Most rows of a fit with folds, for families without dispersion: a label contains less information than a measurement,
and some hundred validation rows of two classes hardly distinguish candidates. Measured on splits 200 to 205 of ada
(3,317 rows) and adult (5,000 of them): log-loss .3086 to .3052 and .2899 to .2861, better in 12 of 12, at 1.5 to 1.9
times the processor time."""

CALIBRATION_BINS = 10
"""Bins of the expected calibration error, each of a tenth of the rows: the usual number."""

EARLY_PAIRS, EARLY_SWEEPS, EARLY_ROWS = 16, 8, 400
"""Factors of order 2, sweeps, and least number of rows of the candidate of two classes, and of ordered levels, that is
stopped early: its table is in docs/classes.md. With fewer rows validation rows cannot tell whether it helps (bupa,
haberman, cm1, diabetes and monk_2, with 244 to 398 rows, splits 400 to 404: log-loss +.0019 +- .0021)."""

EARLY_COLUMNS = 20
"""Most columns of a table for which that candidate is tried. All tables on which it gained have fewer; with 25 to 48
columns (ada, crx, hypothyroid, wdbc) nothing was gained, and fits took two to four times as long."""

DISAGREEING_COPIES = 2.0
"""Further validation rows of two classes, each with the other class than its one copy, that effects of copies are
judged by. Measured on 50 set-splits of 14 sets (splits 400 to 405): log-loss -.0031 +- .0015, at worst +.0015. On cm1,
whose copies agree but for a few of 498 rows, effects of copies added .027 without these, .001 with them; with one or
four +.006 and 0."""

LEAST_REPEATED_SHARE_OF_CLASSES = 0.02
"""``LEAST_REPEATED_SHARE`` of two classes. .02 for .05 on splits 400 to 405 (83 set-splits of 16 sets with copies):
log-loss -.0014 +- .0005, better in 11, worse by less than .0001 in one. yeast1, .027 to .040 of whose rows are copies
that agree, -.0139; 800 rows of wine -.0055; bupa -.0012. Fewer copies cannot gain much, and models with effects of
copies have no exports."""

MOST_INVERSE_TEMPERATURE, INVERSE_TEMPERATURES, SCALING_STANDARD_ERRORS = 3.0, 41, 5.0
"""Largest factor of the linear predictors of two classes, how many factors from 1 on are tried, and by how many
standard errors it has to reduce the validation loss. Only classes that do not overlap reach that: a single validation
row on the wrong side does not allow it. Log-loss on test rows, splits 420 to 423 of monk_2: .0071, .0054, .0075, .0091
to .0018, .0016, .0018, .0029; of 24 other sets one class of segment changes. With 2.5 standard errors laser above its
.6 quantile goes from .290 to .507 on one split by a single row, and is better on three.
"""

MEDIAN_SCALED_ETA = 10.0
"""Largest median of the absolute linear predictors of validation rows that scaling may lead to: probabilities of 5e-5.
Without it classes that a product of two columns separates had linear predictors beyond 20 in all rows."""

MOST_CLASS_INVERSE_TEMPERATURE, CLASS_INVERSE_TEMPERATURES = 1.5, 11
"""Largest factor of the linear predictors of several classes, and how many from 1 on are tried on validation rows.
Splits 420 and 421, log-loss on test rows: car .0321, .0321 to .0259, .0182, vowel .1026, .1339 to .0716, .1146, glass
.5275, .5055 to .5201, .4851, segment .0490, .0692 to .0471, .0682; with factors up to 3 the same but for car (.0175).
"""

"""Every constant of fits: its value, what it is, and why; where it was measured, the table is in docs/experiments.md.

Files import what they read. A test that wants another value sets it in the module that reads it."""

from __future__ import annotations

# Capacity: orders and ranks

HIGHEST_ORDER = 4
"""Highest order that ``order="auto"`` tries."""

RANKS = ((2_000, 4), (12_000, 8), (float("inf"), 12))
"""Number of rows below which the default rank of each order is the second number. Measured: 12 for 8 gain 1 % on bike
sharing, 20 lose 2 % on California."""

FEWEST_GROWTH_EIGENVALUES, MOST_GROWTHS, IDLE_FACTOR_VARIANCE = 2, 2, 1e-3
"""Pairs get as many factors as at first again while at least the first number of eigenvalues of the residual's
covariance exceed those of random signs, at most so often, and while no factor is idle: one whose term has less variance
than the third number times the variance of a row. Measured: one eigenvalue exceeds them in every third fit to data
where more factors do not help, two to six where they do; adult, all idle, 36 to 14 s without."""

SMALL_BASIS_SIZE, LARGE_BASIS_SIZE, SMALL_BASIS_ROWS = 14, 20, 5_000
"""Functions of a column's spline, with at most so many rows and with more."""

# Rows

CHECKPOINT_SECONDS = 5.0
"""Least number of seconds between two writes of a checkpoint."""

MERGED_ROWS = 10_000
"""Most rows for which equal rows are merged into one with the sum of their weights, sorted by their values. Repeated
rows and integer weights, or rows in another order, then give the same fit to the bit; otherwise coordinate ascent on an
objective that is not convex amplifies differences by rounding."""

MOST_DIVIDED_WEIGHT = 1e9
"""Sum of whole weights below which the copies that they stand for are divided among the parts of a cross-validation."""

WIDEST_OFFSET = 600.0
"""Largest range of an offset on a logarithmic scale: means at both ends are finite and not zero."""

MOST_TOTAL_WEIGHT = 2.0**53
"""Largest sum of weights: double precision represents integers exactly up to here."""

WARM_START_ROWS = 2_000
"""Least number of rows for which interactions of ensemble members start from fits to parts of the rows, with squared
errors; for two classes more than ``FULL_SEARCH_ROWS``, never for other losses. Measured on splits 420 to 435: errors of
16 sets with fewer rows 1.028 +- .010 at .88 of the time, of five with more 1.001 +- .008 at .78; of 30,000 to 100,000
simulated rows 1.000 at .60 to .94. Two classes of up to 20,000 rows, 16 sets: log-loss +.0006 +- .0003 at .87; beyond,
-.0001 at .64 to .96. Parts of small samples have other optima."""

FULL_SEARCH_ROWS = 20_000
"""Most rows of which cross-validation uses all; up to here, three ensemble members are fitted. Measured: six members
gain less than .5 %, at twice the time."""

LARGE_SAMPLE_ROWS = 2_000
"""Least effective number of rows of a large sample, whose fits have tighter tolerances, constant tempering and weighted
candidates. Constants of large samples begin with the same words."""

RARE_INFORMATION = 0.1
"""Events are rare where the mean Fisher information of a row, relative to that of a Gaussian target, is less."""

FLOAT64_STATE_ROWS = 4_000
"""Most rows with row states in float64. Above order 3 states are always float64: subtracting a large column loses
digits. Measured: adult takes 13 s with float64, 9 with float32."""

FLOAT64_PASS_ROWS = 200_000
"""Most rows for which passes over rows are computed in float64; beyond, in float32."""

# Estimated smoothing parameters: the Fellner-Schall rule and its bounds

LEAST_EDF, LEAST_QUADRATIC_FORM = 1e-6, 1e-18
"""Lower bounds of numerator and denominator of the rule. For functions that are nearly zero their ratio is large, so
that the smoothing parameter rises to the prior's bound."""

LEAST_EDF_OF_SURFACE, LEAST_QUADRATIC_FORM_OF_SURFACE = 1e-9, 1e-24
"""The same for surfaces, whose coefficients are products of those of two functions."""

LARGEST_LAM_RATIO = 5.0
"""Largest ratio of a smoothing parameter after a step of the rule to that before it, or of that before to that after.
Measured: 100 or 1,000 are no better."""

SMALLEST_LAM = 1e-3
"""Smallest smoothing parameter of splines and surfaces."""

LARGEST_LAM = 1e6, 1e10
"""Largest smoothing parameter of splines: the squared number of rows, within these bounds. The unit is the mean penalty
of the penalised coordinates. The least penalised one has a thousandth of it or less, and the smoothing parameter that
shrinks it to zero grows with the number of rows. Measured: 1e6 for all leaves columns without pairs some (50,000 rows:
error .095 for .062); 1e10 for all costs Yacht 9 %."""

IID_LAM, IID_BESIDE_SPLINE_LAM, RANDOM_WALK_LAM = (1e-6, 1e6), (1e-3, 1e6), ((1e-3, 1e-6), (1e8, 1e8))
"""Smallest and largest smoothing parameters of independent effects, alone and beside a spline, and of the differences
and values of random walks. Bounds that estimates seldom reach; not varied."""

SMALLEST_MAIN_LAM, LARGEST_MAIN_LAM = 1e-6, 1e8
"""Bounds of the smoothing parameters of smooth main effects; the upper one is at least that of the factors."""

LARGEST_SURFACE_LAM = 1e10
"""Largest smoothing parameter of surfaces."""

LEAST_START_SQUARE = 0.3
"""Smoothing parameters of factors start at those for functions of their mean square, or of this one if it is larger:
higher initial values would shrink small factors to zero in the first sweeps. Measured: errors of six sets .92 (random
walk) and .98 (spline_iid)."""

# Priors

MOST_START_LEVELS = 24
"""Most levels of a column with initial factors that are not random: the most frequent ones."""

FEWEST_EFFECT_ROWS = 1.5
"""Fewest rows of a code whose independent effect is used to estimate smoothing parameters: with one row an effect
cannot be distinguished from its residual."""

LARGEST_COORDINATE_PENALTY = 1e6
"""Upper bound of the penalty of a coordinate. Coordinates with larger ones are zero in any fit, and would dominate the
mean penalty, which is the unit of smoothing parameters."""

LARGEST_LOCAL_ERROR, LARGEST_LOCAL_FRACTION = 1e-11, 0.6
"""Splines are solved in local functions (B-splines) where these reproduce the values with this relative error, and
where the number of them that are not zero at a code is at most this fraction of the coordinates."""

SPLINE_JITTER = 1e-8
"""Fraction of the mean diagonal that is added to it, for directions that neither rows nor prior determine."""

MOST_SURFACE_COORDINATES = 4_000
"""Most coordinates of all columns for which pairs have smoothing parameters of their own: with more, an update of all
pairs takes longer than a sweep."""

ROWS_PER_CELL = 4
"""Least number of rows per cell of two columns with levels for which pairs have smoothing parameters of their own; with
fewer, these overfit. Measured: 300 rows, 21 levels each, .26 for .06."""

MOST_SURFACE_PRECISION = 100.0
"""Largest prior precision of a surface's coefficient over the information of the rows about it: the coefficient is then
zero but for one percent. With a larger one, columns could not grow in factors in which others are nearly zero."""

LARGEST_FIRST_SURFACE_LAM_RATIO, FIRST_SURFACE_STEPS = 2.0, 10
"""Largest ratio of a smoothing parameter of surfaces after one of the first steps of the rule to that before it, and
number of these steps: coefficients of weak surfaces grow slowly."""

INITIAL_SURFACE_EDF_PER_ROW, INITIAL_SURFACE_EDF_PER_COEFFICIENT = 2.0, 0.1
"""Initial effective degrees of freedom of all surfaces, at most: per row, and per coefficient. With fewer, weak pairs
are lost; with more, surfaces overfit."""

LARGEST_SURFACE_EDF_PER_ROW = 0.75
"""Largest number of effective degrees of freedom of all surfaces, per row, in the estimate of the dispersion."""

# Sweeps of coordinate ascent

MAIN_SWEEPS, INNER_SWEEPS, LAST_SWEEPS, LARGE_SAMPLE_LAST_SWEEPS = 8, 25, 60, 30
"""Most sweeps for main effects that interactions follow, for an order below the last, and for the last: of small and of
large samples. Measured: 50 and 150 for 25 and 60 change errors by less than 1 % at 2.3 times the time, 15 and 40 cost 1
to 2 %; 60 for 30 cost California 1 %."""

LEARNING_SWEEPS, LARGE_SAMPLE_LEARNING_SWEEPS, COEFFICIENT_SWEEPS = 8, 16, 300
"""Main effects alone: sweeps that update smoothing parameters, of small and large samples, and at most so many more.
Measured: 16 for 8 gain 12 % with 10,000 rows, 40 no more; until smoothing parameters converge, families overfit."""

WARM_SWEEPS = 5
"""First sweeps of a stage, with the partners' variances set to 0 and smoothing parameters fixed. Measured: none or 2
cost 3 to 8 %."""

WARM_STARTED_INNER_SWEEPS, WARM_STARTED_LAST_SWEEPS, FEWEST_WARM_STARTED_SWEEPS = 8, 15, 3
"""Most sweeps of stages that start from the posterior of a fit to a part of the rows: for an order below the last, and
for the last; and the least. Measured: 15, 40 and 6 are no better, at .94 of the time of cold starts for .78."""

FEWEST_SWEEPS = 12
"""Least number of sweeps of a stage."""

SWEEP_TOL, LARGE_SAMPLE_SWEEP_TOL = 2e-3, 5e-4
"""A stage ends after three sweeps that change the logarithm of the dispersion by less."""

CONVERGED_CHANGE = 1e-5
"""Main effects alone end after three sweeps that change predictions by less, in standard deviations of a row."""

REBUILD_SWEEPS = 10
"""Between two constructions of the rows' states from scratch, against rounding."""

FAMILY_SWEEPS = (0, 1, 2, 6, 12, 24)
"""Sweeps of a stage before which a family's own parameters are estimated."""

DIVERGED_RATIO, FAILED_RATIO = 100.0, 1.25
"""Ratios of the dispersion, or of the remaining loss, to its value before a stage: above the first, sweeps diverge;
above the second at its end, the stage fails, and the fit goes back to the stage below. The reference is at least the
loss of constants.

After the warm sweeps, when the partners' variances enter, the dispersion may rise to seven times what it was before it
falls. Products of four columns, some of them large at rare codes, amplify rounding. On small sets of repeated values
(Energy, Yacht) every other fit of order 4 diverged, and one of them dominates the mean of an ensemble."""

LARGEST_FUNCTION_VALUE = 1e5
"""Largest value of a function, in standard deviations of the target. At 2e7, differences that explanations are made of
had no correct digits."""

CONVERGED_SWEEPS = 3
"""A stage ends after so many sweeps in a row that change next to nothing."""

TEMPERING_CHANGE, WARM_DISPERSION_RATIO = 0.02, 0.7
"""Row states are built again when the tempering has changed by more than this fraction; and the least ratio of the
dispersion after a warm sweep to that before it. Not varied."""

# Steps of one column

COLUMN_JITTERS = (1e-9, 1e-6, 1e-3)
"""Fractions of the mean diagonal added to a block's diagonal; later ones where rounding has made it indefinite."""

LARGEST_FACTOR_VALUE, LARGEST_RARE_FACTOR_VALUE, RARE_CODE_ROWS = 10.0, 4.0, 5.0
"""Bounds of factors in units of their root mean square: at codes of many rows, and of fewer than five. Measured: Forest
fires, order 3, 1.53 to 1.37; wine .64 to .69 for errors up to 8."""

REBUILD_VALUE_RATIO = 10.0
"""Ratio of rejected values of a function to its former ones above which row states are built again: subtracting them
would leave large rounding errors."""

DAMPINGS = (0.0, 1.0, 4.0, 16.0, 64.0, 256.0)
"""Multiples of the curvature that are added to it, tried one after another until a step has sufficient decrease."""

LARGEST_ETA_STEP = 3.0
"""Largest change of a linear predictor in one block: beyond, the quadratic approximation does not hold."""

SUFFICIENT_DECREASE = 0.25
"""Of ``sum w h step^2``: the most by which losses may exceed their approximations. The penalised loss falls then."""

MAJORANT_ETA = 20.0
"""Absolute linear predictor above which the family's majorant replaces curvatures, which are nearly zero."""

LEAST_DISPERSION, ROUNDING = 1e-9, 1e-12
"""Least dispersion, in units of the target's variance; rounding of a sum of losses, relative to it."""

MAIN_HALVINGS = 8
"""Most halvings of a step of all main effects until it has sufficient decrease."""

LEAST_DISPERSION_RATIO = 0.7
"""Least ratio of the dispersion after a sweep to that before it where pairs have smoothing parameters of their own,
whose steps are limited as well."""

MOST_INFORMATION_ROWS = 50_000
"""Most rows that the mean curvature of the loss at constants is estimated from."""

# Main effects, jointly

MOST_MAIN_COEFFICIENTS, MOST_DESIGN_CELLS = 1_000, 50_000_000
"""Most coefficients and entries of the design of smooth main effects; beyond, there is no joint solve."""

MAIN_FIRST_STEPS, ADDITIVE_FIRST_STEPS = 30, 20
"""Fellner-Schall steps of the first solve of smooth main effects, and of the additive fit that stages start from."""

FEWEST_FIRST_STEPS, FIRST_STEPS_TOL = 6, 1e-4
"""They end after at least so many steps, once the objective changes by less. Not varied."""

# Tempering: the fraction of the partners' variance that counts

SECOND_TEMPERING_ROWS = 12_000
"""Effective number of rows from which on the second tempering of a candidate is used."""

SPLINE_IID_TEMPERING, SPLINE_TEMPERING, RANDOM_WALK_TEMPERING = (0.55, 0.7), (0.7, 0.7), (0.7, 1.0)
"""Of candidates, from ``LARGE_SAMPLE_ROWS`` and from ``SECOND_TEMPERING_ROWS`` on. Measured: .55 for .7 gains .6 % on
wine and power plant; random walks of many rows lose 1 % with .7 on California and bike sharing."""

WEIGHTED_RANDOM_WALK_TEMPERING, WEIGHTED_SPLINE_TEMPERING = (0.7, 0.5), (0.7, 0.7)
"""Of candidates with weighted rows. Measured: random walks of weighted rows, California: .406, .402 and .403 with .3,
.45 and .6."""

REFINED_SPLINE_TEMPERING = 0.5
"""Tempering of smooth factors in fits that are refined on more rows, where pairs have no smoothing parameters."""

NOISE_TEMPERING, LEAST_NOISE_TEMPERING = 1.5, 0.25
"""Tempering with few rows: the first number times the root of the remaining loss, at least the second. Measured: errors
.95 of those with .5 for all, close to the best constant on every set."""

LEAST_SIGNAL_TEMPERING = 0.2
"""Lower bound of the explained fraction of the loss, where the tempering is proportional to it."""

# Cross-validation and stacking weights

FAST_FACTOR_PRIOR = "random_walk"
"""The one candidate of effort="fast". Measured on splits 900 to 902 of 20 sets: errors 1.058 of those of the default at
.17 of its processor time; "spline_iid" 1.076 at .23, "spline" 1.083 at .20."""

WIDE_RANK_FACTOR, BEST_FOLDS, BEST_MEMBERS, BEST_MEMBERS_BEYOND = 2, 5, 6, 3
"""Of effort="best": how many times the rank further candidates have, folds, and ensemble members up to
``FULL_SEARCH_ROWS`` rows and beyond. Measured on splits 900 to 902 of 18 sets of up to 1,500 rows: errors .989 of the
default's at four times the processor time (concrete .95, Energy .87, slump 1.05); with three folds 1.001 at 2.7 times;
six members alone 1.019 at 1.2 times, by servo (167 rows) most of all."""

SEARCH_TIME_FRACTION = 0.7
"""Of the time that is left of a budget: cross-validation that would likely take longer is left out. Without fits of
what it prefers it would be of no use, and these take about as long as the rest."""

FEWEST_VALIDATION_ROWS = 50
"""Below, there are no validation rows and interactions are splines. Measured: 50 for 100, tables of 30 to 99 rows: .990
to .931 of the errors of order 1."""

FOLDS, FOLDED_ROWS, HOLDOUT_PARTS = 3, 3_000, 5
"""Folds up to so many rows; beyond, validation rows are one part of so many."""

SEARCH_ROWS, SEARCH_SWEEPS, FEWER_SEARCH_SWEEPS = 8_000, 22, 16
"""Rows of candidate fits beyond ``FULL_SEARCH_ROWS``; most sweeps of candidate fits; and most up to there where the
dispersion is estimated, beyond for two classes. Measured: 12, 20, 30 for 60, errors of 13 Gaussian sets 1.006, 1.009,
1.000; 16 for 30, two classes of 24,000 to 40,000 rows (four sets, splits 460 to 463) log-loss -.0001 +- .0002 at .66 to
1.0 of the time; up to 20,000 rows worse by .0024 on one of three sets."""

RACED_ORDER, RACE_STANDARD_ERRORS = 2, 2.0
"""Candidates go on to higher orders that are not behind here by so many standard errors or, for several members, have
weight. Weight alone: puma32h .0054 to .0074, it is chance which of equal candidates finds triples."""

RARE_SEARCH_ROWS = 48_000
"""Rows of candidate fits where events are rare: a third as many may find no pair, by chance (measured on claims)."""

NON_DISPERSED_VALIDATION_ROWS = 100_000
"""Most validation rows of families without dispersion, whose targets contain less information: 20,000 rows have too few
rare events to compare models with and without pairs (claims)."""

LINE_ROWS = 500
"""Rows of censored times below which a further candidate has lines as main effects, and curves and interactions have to
beat lines alone by ``SUPPORTED_GAIN``. Measured on simulated Weibull times (30 replications): root mean square errors
of survival probabilities of 134 rows .109, .092 and .105 without it, .096, .074 and .104 with it, where the truth is
linear (two times) and where it has a curve; of 400 rows .059 and .059 without it, .051 and .066 with it. With 548 rows
of gbsg2, whose effects are curved, concordance .696 without it and .692 with it."""

LEAST_WEIGHT = 0.05
"""Smaller stacking weights are left out: an ensemble member costs rank. Also the weight of main effects where there are
no validation rows to estimate it from."""

EQUAL_WEIGHTS_ROWS = 30.0
"""Prior for equal weights of all candidates at the highest order, in units of rows. Measured: Yacht .341 to .334; with
100 Airfoil gains 1 %, power plant loses .4 %."""

LARGEST_COMPARED_LOSS = 1e120
"""Upper bound of a row's loss where orders are compared, so that squares are finite: linear predictors of validation
rows are extrapolated, and their exponentials overflow."""

STACKING_STEPS = 10
"""Most steps of iterated least squares for the stacking weights."""

SUPPORTED_GAIN, SIGNIFICANT_GAIN = 1.0, 2.0
"""Least gains in standard errors: of any interactions over none, to be supported; of a higher order over a lower one,
to be significant in a search for the order. Measured: three for the first lose real interactions of 1,000 rows."""


# Merger

ENSEMBLE_MEMBERS = 3
"""Ensemble members up to ``FULL_SEARCH_ROWS``; see there."""

LEAST_VARIANCE, LEAST_VARIANCE_RATIO = 1e-5, 0.01
"""Factors whose term has a smaller fraction of the target's variance, and of the dispersion, are dropped."""

WARNED_ETA, WARNED_CURVATURE_RATIO = 20.0, 1e-8
"""A fit warns of absolute linear predictors above the first on a logarithmic scale, and of curvatures below the second
times their mean."""

MOST_MEMBER_DISPERSION_RATIO = 1.25
"""Largest ratio of a member's dispersion to the least one among members of the same candidate; others are left out.
Measured: Naval 4.3e-5 to 2.5e-5."""

# Checks of the variance

OVERDISPERSED_PEARSON, UNDERDISPERSED_PEARSON = 1.5, 0.5
"""Pearson dispersions beyond which a fit warns."""

DISPERSION_STANDARD_ERRORS = 3.0
"""Least distance of the statistic from 1 for a warning, in standard errors: with small means its variance is large."""

LARGEST_COLUMN_DF, LEAST_RESIDUAL_FRACTION = 20, 0.2
"""In that statistic: largest degrees of freedom of a column's main effect, and least residual degrees of freedom as a
fraction of the rows."""

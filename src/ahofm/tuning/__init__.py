"""Every constant of fits: its value, what it is, and why; where it was measured, the table is in docs/experiments.md.

Files import what they read. A test that wants another value sets it in the module that reads it."""

from __future__ import annotations

from ahofm.rows import RAW_SAMPLE_ROWS

# Capacity: orders and ranks

HIGHEST_ORDER = 4
"""That order="auto" tries."""

RANKS = ((2_000, 4), (12_000, 8), (float("inf"), 12))
"""Factors that are enough, by rows. Measured: 12 for 8 gain 1 % on bike sharing, 20 lose 2 % on California."""

MORE_FACTORS_FROM, MOST_GROWTHS, IDLE_FACTOR = 2, 2, 1e-3
"""Directions left in the residual from which on pairs get as many factors as at first again, how often at most, and
variance of a factor's term over a row's noise, below which it is idle: there is room. Measured: one is left in every
third fit to data where more do not help, two to six where they do; adult, all idle, 36 to 14 s without."""

BASIS_SIZE, BASIS_SIZE_OF_MANY, BASIS_ROWS = 14, 20, 5_000
"""Functions of a column's spline: up to so many rows, and beyond."""

# Rows

CHECKPOINT_SECONDS = 5.0
"""Between two writes of a checkpoint, at least."""

MERGED_ROWS = 10_000
"""Up to here equal rows become one with the sum of their weights, in an order that depends on their values alone.
Repeated rows and integer weights, or rows in another order, then give the same fit to the bit; an iteration that is not
convex would let rounding grow."""

WIDEST_OFFSET = 600.0
"""Range of an offset for which both ends have finite means that are not zero."""

MOST_TOTAL_WEIGHT = 2.0**53
"""Rows that double precision can count."""

FEW_ROWS = 20_000
"""Up to here all rows are validation rows once, and three ensemble members are fitted. Measured: six members gain less
than .5 %, at twice the time."""

MANY_ROWS = 2_000
"""From here on slow changes are worth waiting for: what is left to find is small, and so is the noise in it."""

RARE_INFORMATION = 0.1
"""Of a row, by what measurements tell: with less on average, events are rare."""

FLOAT64_STATE_ROWS = 4_000
"""Up to here row states are float64, and above order 3, where removing a large column costs digits (adult 13, 9 s)."""

FLOAT64_PASS_ROWS = 200_000
"""Up to here passes over rows are computed in float64, which costs little; beyond, in float32."""

# Estimated smoothing parameters: the Fellner-Schall rule and its bounds

LEAST_EDF, LEAST_QUADRATIC_FORM = 1e-6, 1e-18
"""Of functions that have all but vanished: their smoothing parameters may go on to rise, up to the prior's bounds."""

LEAST_EDF_OF_SURFACE, LEAST_QUADRATIC_FORM_OF_SURFACE = 1e-9, 1e-24
"""The same of surfaces, the products of two functions."""

LAM_STEP = 5.0
"""A step of the rule changes a smoothing parameter by at most this factor. Measured: 100 or 1,000 are no better."""

SMALLEST_LAM = 1e-3
"""Of splines and surfaces."""

LARGEST_LAM = 1e6, 1e10
"""Up to 1,000 rows and from 100,000 on: as the squared number of rows between them.
The unit is the mean stiffness of what is wiggly. The least stiff part of it has a thousandth and less of that, and the
more rows there are, the stronger must be what makes a function vanish that is not needed. Measured: 1e6 for all leaves
columns without pairs some (50,000 rows: error .095 for .062); 1e10 for all costs Yacht 9 %."""

IID_LAM, IID_BESIDE_SPLINE_LAM, RANDOM_WALK_LAM = (1e-6, 1e6), (1e-3, 1e6), ((1e-3, 1e-6), (1e8, 1e8))
"""Smallest and largest smoothing parameters of independent effects, alone and beside a spline, and of the differences
and values of random walks. Bounds that estimates seldom reach; not varied."""

SMALLEST_MAIN_LAM, LARGEST_MAIN_LAM = 1e-6, 1e8
"""Of smooth main effects; the highest unless factors may have higher ones."""

LARGEST_SURFACE_LAM = 1e10
"""Of surfaces."""

LEAST_START_SQUARE = 0.3
"""Smoothing parameters start no higher than those of factors with this mean square: a factor that starts small is not
pruned before the rows have had their say. Measured: errors of six sets .92 (random walk) and .98 (spline_iid)."""

# Priors

START_LEVELS = 24
"""So many of a column's levels, the most frequent ones, take part in the start of its factors."""

REPEATED = 1.5
"""Rows of a code, at least, to tell its effect from noise."""

STIFFEST_COORDINATE = 1e6
"""Penalties of single coordinates are bounded: data hardly see what is stiffer, and it would outweigh the rest."""

LOCAL_EXACT, MOST_LOCAL = 1e-11, 0.6
"""Splines at the codes by local functions: relative error of values, and local functions at a code per coordinate."""

SPLINE_JITTER = 1e-8
"""Of the mean diagonal, added to it: directions that neither rows nor prior determine stay put."""

MOST_SURFACE_COORDINATES = 4_000
"""Coordinates of all columns together, at most: with more, an update of all pairs takes longer than a sweep."""

ROWS_PER_CELL = 4
"""Of two columns with levels. With fewer, a table that is a product of few factors is more than its cells tell.
Measured: 300 rows, 21 levels each, .26 for .06."""

SURFACE_GONE = 100.0
"""Times what rows tell of a coefficient: a prior of that precision has done away with it. More of it would keep columns
from taking up factors in which others are not quite zero."""

SURFACE_FIRST_STEP_UP, SURFACE_FIRST_STEPS = 2.0, 10
"""Largest first steps up of a smoothing parameter, and how many these are: weak surfaces take time to grow."""

SURFACE_DF_PER_ROW, SURFACE_DF_PER_COEFFICIENT = 2.0, 0.1
"""Degrees of freedom of all surfaces together when they begin: fewer lose weak pairs, more follow the noise."""

SURFACE_MOST_DF = 0.75
"""Fraction of the degrees of freedom of the noise that surfaces use, at most."""

# Sweeps of coordinate ascent

MAIN_SWEEPS, INNER_SWEEPS, LAST_SWEEPS, LAST_SWEEPS_OF_MANY = 8, 25, 60, 30
"""Most sweeps for main effects that interactions follow, for an order below the last, and for the last: with few rows,
and from ``MANY_ROWS`` on. Measured: 50 and 150 for 25 and 60 change errors by less than 1 % at 2.3 times the time, 15
and 40 cost 1 to 2 %; 60 for 30 with many rows cost California 1 %."""

LEARNING_SWEEPS, LEARNING_SWEEPS_OF_MANY, ALONE_SWEEPS = 8, 16, 300
"""Main effects alone: sweeps that update smoothing parameters, with few rows and many, and at most so many more.
Measured: 16 for 8 gain 12 % with 10,000 rows, 40 no more; until smoothing parameters converge, families overfit."""

WARM_SWEEPS = 5
"""First sweeps of a stage, with partners taken as known. Measured: none or 2 cost 3 to 8 %."""

FEWEST_SWEEPS = 12
"""Before a stage may end."""

SWEEP_TOL, SWEEP_TOL_OF_MANY = 2e-3, 5e-4
"""A stage ends after three sweeps that change the logarithm of the noise variance by less."""

SETTLED = 1e-5
"""Main effects alone end after three sweeps that change predictions by less, in standard deviations of a row."""

REBUILD_SWEEPS = 10
"""Between two constructions of the rows' states from scratch, against rounding."""

FAMILY_SWEEPS = (0, 1, 2, 6, 12, 24)
"""Sweeps of a stage before which a family's own parameters are estimated."""

DIVERGED, HARMFUL = 100.0, 1.25
"""Times the noise, or the loss, before a stage: sweeps that pass it diverge; factors that end with so much have done
harm. Losses count from those of constants on: to be pruned may cost as much as the stages before have gained.

When the partners' uncertainty begins to count, the noise may rise to seven times what it was, and then falls.
Products of four columns, some of them large at rare codes, can feed on their own rounding. On small sets of repeated
values (Energy, Yacht) every other fit of order 4 did, and one of them outweighs all others in a mean."""

LARGEST_VALUE = 1e5
"""Values of functions, in standard deviations of the target. At 2e7 explanations of a fit had lost all their digits."""

SETTLED_SWEEPS = 3
"""A stage ends after so many sweeps in a row that change next to nothing."""

TEMPERING_CHANGE, WARM_DISPERSION_RATIO = 0.02, 0.7
"""Row states are built again when the tempering has changed by more than this fraction; a warm sweep, in which partners
have no variance, lowers the dispersion by no more than to the second. Not varied."""

# Steps of one column

COLUMN_JITTERS = (1e-9, 1e-6, 1e-3)
"""Fractions of the mean diagonal added to a block's diagonal; later ones where rounding has made it indefinite."""

FARTHEST_VALUE, FARTHEST_RARE_VALUE, RARE_CODE_ROWS = 10.0, 4.0, 5.0
"""Bounds of factors in units of their root mean square: at codes of many rows, and of fewer than five. Measured: Forest
fires, order 3, 1.53 to 1.37; wine .64 to .69 for errors up to 8."""

FAR_VALUE = 10.0
"""Times the values of a function, from which on removing it from the row states leaves too much rounding behind."""

DAMPINGS = (0.0, 1.0, 4.0, 16.0, 64.0, 256.0)
"""Tried one after another until a step has sufficient decrease."""

FARTHEST_STEP = 3.0
"""Largest change of a linear predictor in one block: farther off the quadratic approximation is useless."""

SUFFICIENT_DECREASE = 0.25
"""Of ``sum w h step^2``: the most by which losses may exceed their approximations. The penalised loss falls then."""

LARGE_ETA = 20.0
"""From a linear predictor of that size on a family's majorant replaces curvatures, which have all but vanished."""

LEAST_NOISE, ROUNDING = 1e-9, 1e-12
"""Least dispersion, in units of the target's variance; rounding of a sum of losses, relative to it."""

MAIN_HALVINGS = 8
"""Of a step of all main effects, at most, until it has sufficient decrease."""

LEAST_DISPERSION_RATIO = 0.7
"""Of the dispersion after a sweep to that before it, while pairs have smoothing parameters of their own: these have to
keep up with it."""

ROUGH_ROWS = 50_000
"""Rows that a rough estimate is made from."""

# Main effects, jointly

MOST_MAIN_COEFFICIENTS, MOST_DESIGN_CELLS = 1_000, 50_000_000
"""Of the design; beyond, main effects are left to the blocks."""

GRAM_ROWS = 8_192
"""Of the design that are weighted at a time: a weighted copy of it all would double the memory."""

MAIN_FIRST_STEPS, ADDITIVE_FIRST_STEPS = 30, 20
"""Fellner-Schall steps of the first solve of smooth main effects, and of the additive fit that stages start from."""

FEWEST_FIRST_STEPS, FIRST_STEPS_TOL = 6, 1e-4
"""They end after at least so many steps, once the objective changes by less. Not varied."""

# Tempering: the fraction of the partners' variance that counts

TEMPERED_ROWS = 12_000
"""From here on a candidate's second tempering counts."""

SPLINE_IID_TEMPERING, SPLINE_TEMPERING, RANDOM_WALK_TEMPERING = (0.55, 0.7), (0.7, 0.7), (0.7, 1.0)
"""Of candidates, from ``MANY_ROWS`` and from ``TEMPERED_ROWS`` on. Measured: .55 for .7 gains .6 % on wine and power
plant; random walks of many rows lose 1 % with .7 on California and bike sharing."""

WEIGHTED_RANDOM_WALK_TEMPERING, WEIGHTED_SPLINE_TEMPERING = (0.7, 0.5), (0.7, 0.7)
"""Of candidates with weighted rows. Measured: random walks of weighted rows, California: .406, .402 and .403 with .3,
.45 and .6."""

REFINED_SPLINE_TEMPERING = 0.5
"""Of smooth factors where pairs have no smoothing parameters of their own."""

NOISE_TEMPERING, LEAST_NOISE_TEMPERING = 1.5, 0.25
"""With few rows: times the root of the loss that is left, and at least. Measured: errors .95 of those with .5 for all,
close to the best constant on every set."""

LEAST_SIGNAL_TEMPERING = 0.2
"""Of the fraction of the loss that is explained, where tempering follows it."""

# Cross-validation and stacking weights

FAST_INTERACTIONS = "random_walk"
"""The one candidate of effort="fast". Measured on splits 900 to 902 of 20 sets: errors 1.058 of those of the default at
.17 of its processor time; "spline_iid" 1.076 at .23, "spline" 1.083 at .20."""

WIDE_TIMES, BEST_FOLDS, BEST_MEMBERS, BEST_MEMBERS_OF_MANY = 2, 5, 6, 3
"""Of effort="best": how many times the rank further candidates have, folds, and ensemble members up to ``FEW_ROWS`` and
beyond. Measured on splits 900 to 902 of 18 sets of up to 1,500 rows: errors .989 of the default's at four times the
processor time (concrete .95, Energy .87, slump 1.05); with three folds 1.001 at 2.7 times; six members alone 1.019 at
1.2 times, by servo (167 rows) most of all."""

SEARCH_FRACTION = 0.7
"""Of the time that is left of a budget: cross-validation that would likely take longer is left out. Without fits of
what it prefers it would be of no use, and these take about as long as the rest."""

FEWEST_VALIDATION_ROWS = 50
"""Below, there are no validation rows and interactions are splines. Measured: 50 for 100, tables of 30 to 99 rows: .990
to .931 of the errors of order 1."""

FOLDS, FOLDED_ROWS, HOLDOUT_PARTS = 3, 3_000, 5
"""Folds up to so many rows; beyond, validation rows are one part of so many."""

SEARCH_ROWS, SEARCH_SWEEPS, SEARCH_SWEEPS_OF_FEW = 8_000, 22, 16
"""Rows of candidate fits when rows are many, sweeps then and, up to 20,000 rows, where the dispersion is estimated. 12,
20, 30 for 60, errors of 13 Gaussian sets: 1.006, 1.009, 1.000. Two classes: 22 was not measured alone (.995 of all)."""

RACED_ORDER, SURELY_BEHIND = 2, 2.0
"""Candidates go on to higher orders that are not behind here by so many standard errors or, for several members, have
weight. Weight alone: puma32h .0054 to .0074, it is chance which of equal candidates finds triples."""

RARE_SEARCH_ROWS = 48_000
"""Rows of candidate fits where events are rare: a third as many may find no pair, by chance (measured on claims)."""

TELLING_ROWS = 100_000
"""Validation rows, at most, where a row tells less: 20,000 have too few rare events to judge pairs (claims)."""

LEAST_WEIGHT = 0.05
"""Smaller stacking weights are left out: an ensemble member costs rank. Also the weight of main effects that no
validation rows can judge."""

EQUAL_WEIGHTS_ROWS = 30.0
"""Prior for equal weights of all candidates at the highest order, in units of rows. Measured: Yacht .341 to .334; with
100 Airfoil gains 1 %, power plant loses .4 %."""

WORST_LOSS = 1e120
"""Loss of a row, at most, where orders are compared: validation rows may be anywhere, and an exponential of a poor
prediction is soon beyond double precision."""

STACKING_STEPS = 10
"""Of iterated least squares, for the stacking weights."""

LIKELY_GAIN, SURE_GAIN = 1.0, 2.0
"""Standard errors of a gain: of any interactions over none, for them to count; of a higher order over a lower one, for
a search for the order to go on. Measured: three for the first lose real interactions of 1,000 rows."""

# Variance model of rows

VARIANCE_ROWS = 5_000
"""Whose errors are looked at: functions of one column each need no more."""

LEAST_ERROR = 0.01
"""Of the root mean square: an error of zero says nothing of precision."""

EQUALLY_PRECISE = 0.2
"""Standard deviation of the logarithms of standard deviations, below which weights are not worth a fit."""

FEWEST_VARIANCE_ROWS = 100
"""Validation rows from which on a variance model is fitted for intervals of new targets."""

MEAN_BINS, MEAN_BIN_ROWS, MEAN_SHRINKAGE_ROWS = 20, 50, 10.0
"""Of the dependence of errors on the mean: bins at most, rows of a bin at least, and rows whose ratio is 1."""

CONCORDANCE_ROWS = 3_000
"""Validation rows at most whose pairs are compared."""

SCALE_ORDER = 2
"""Highest order of interactions in the standard deviation of ``GaussianLocationScale``."""

SCORED_LEVEL = 0.95
"""Level of the intervals whose score on validation rows decides how much of a variance model is taken."""

FARTHEST_WEIGHT = 20.0
"""Weights are at most so many times their median, and at least one part in as many of it."""

# Merger

MEMBERS = 3
"""Ensemble members up to ``FEW_ROWS``; see there."""

LEAST_VARIANCE, LEAST_VARIANCE_OF_NOISE = 1e-5, 0.01
"""Factors whose term has a smaller fraction of the target's variance, and of the noise's variance, are dropped."""

FAR_ETA, SILENT_CURVATURE = 20.0, 1e-8
"""Linear predictors on a logarithmic scale, and weights of the mean curvature, that are worth a warning."""

MUCH_WORSE = 1.25
"""Times the least noise among fits by the same candidate: left out. Measured: Naval 4.3e-5 to 2.5e-5."""

# Subsample, and passes over all rows

SAMPLE_ROWS = 50_000
"""Rows of the sample: enough for first smoothing parameters, the dispersion and the start of factors."""

SUBSAMPLE_ROWS = RAW_SAMPLE_ROWS
"""Beyond, this is the default: at order 3 and rank 12 both take as long there, with about the same error."""

PASSES, PASSES_BELOW = 44, 12
"""Over all rows, at most: at the highest order, and at each of those below."""

LEAST_OVER_NOISE = 0.1
"""Least ratio of a term's variance to that by noise. Below 1: it was shrunk, and more rows may find more. Measured: 1
loses real factors now and then (Poisson random walks .045 to .084)."""

LEAST_FACTOR_SQUARE = 1e-18
"""Of a factor, to compare its step with."""

LAM_STEPS = 5
"""Steps of the rule for smoothing parameters at a time: they need no pass, and what is to vanish takes many."""

QUASI_NEWTON_MEMORY = 10
"""Steps that the quasi-Newton matrix remembers."""

ENOUGH_DECREASE = 0.5
"""Ends when a step promises less, in units of log-likelihood: one coefficient's sampling error is as large."""

DESCENTS = 4
"""Descents; smoothing parameters are estimated again after each but the last."""

# Checks of the variance

OVERDISPERSED, UNDERDISPERSED = 1.5, 0.5
"""Pearson dispersions beyond these are worth a warning."""

SURE_DISPERSION = 3.0
"""Standard errors that the statistic must be from 1: with small means it is noisy."""

COLUMN_DF = 20
"""Degrees of freedom that a function of a column has at most, roughly."""

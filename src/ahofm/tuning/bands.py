"""Constants of bands: their values, what they are, and why.

Coverage is that of the designs of benchmarks.bands, on seeds that its table does not have: 5000 to 5299.
"""

from __future__ import annotations

MAIN_PRIOR_EDF = 1.0
"""Effective degrees of freedom at the scale of the half-Cauchy prior of a main effect, of its penalised coordinates or
its levels; at most half their number. With .5, exponential functions are covered by 92 % instead of 93 % (binomial)."""

FACTOR_PRIOR_EDF = 0.5
"""The same for all factors of a column and order together. Surfaces of the two designs with pairs are covered by 94.5
and 96.2 % with .5, by 95.6 and 97.0 % with 1 (seeds 5000 to 5039)."""

LINE_PRIOR_EDF = 0.7
"""The same for the slope of a main effect. Spline penalties do not apply to lines, and a slope that was shrunk to zero
still has a variance. With .5, slopes of columns correlated by .9 are covered by 90 % (binomial) instead of 92 %; with
.96, a column that repeats another has twice the variance."""

PENALTY_POWERS = (0.5, 1.0, 1.5, 2.0)
"""Powers of a main effect's penalty that are averaged over: smoothness classes, from rougher than that of the penalty
to much smoother. With power 1 alone, a cosine is covered by 97 to 99 % and an exponential function by 90 to 96 %; with
these, by 95 to 97 % and 93 to 97 %."""

DETERMINED_TOLERANCE = 0.5
"""Tolerance (root of 1 - R^2 of a coordinate on the others) from which on a main effect counts as determined by data.
With 1, columns correlated by .9 have too large variances (97 % instead of 96.5 %); with .25, so has a column that
repeats another."""

MOST_COORDINATES = 2_500
"""Most coordinates of a linear predictor; beyond, factors keep their smoothest ones only. With several linear
predictors, divided by the root of their number. Main effects of numbers keep the smoothest where they alone are more,
from 193 columns on."""

UNUSED_VARIANCE = 1e-5
"""Part of the variance of all main effects that coordinates beyond the smoothest of one column may have, to be left out
where columns are too many."""

MOST_CORRELATED = 600
"""Most coordinates with correlations: main effects, and those of factors with the largest effective degrees of freedom.
The others have a variance each. Standard errors of new rows of concrete and wine differ from those with all 2,497 and
1,927 coordinates by 4 % in the median, for most rows by up to 15 %; bands of the surfaces of benchmarks.bands (859
coordinates) do not change down to 400."""

MOST_WOODBURY_ROWS = 300
"""Most rows for which variances come from the joint posterior of all coordinates, by an (n, n) matrix (Woodbury's
formula). New targets of 150 rows with 8 columns and little noise are covered by 89 %, without it by 83 %."""

USUAL_STD_ROWS, USUAL_STD_QUANTILE = 500, 0.99
"""Rows of training whose standard errors are looked at, and the share of them that is usual: intervals for new targets
have these in the errors of validation rows, and are widened where a standard error is larger."""

SMALLEST_BAND_LAM, LARGEST_BAND_LAM = 1e-3, 1e10
"""Bounds of the smoothing parameters of bands, in the units that fits are made in. Seldom reached; not varied."""

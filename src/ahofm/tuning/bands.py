"""Constants of bands: their values, what they are, and why.

Coverage is that of the designs of benchmarks.bands, on seeds that its table does not have: 5000 to 5179.
"""

from __future__ import annotations

CENTRE = 1.0
"""Effective degrees of freedom at the scale of the half-Cauchy prior of a main effect: of what bends, or of levels;
half of a coefficient each at most. With .5, exponential functions are covered by 92 for 93 % (binomial)."""

FACTOR_CENTRE = 0.5
"""The same for all factors of a column and order together. Surfaces of the two designs with pairs are covered by 94.5
and 96.2 % with .5, by 95.6 and 97.0 % with 1 (seeds 5000 to 5039)."""

LINE_CENTRE = 0.7
"""The same for the slope of a main effect. Lines are what penalties of splines leave free, and a slope that was shrunk
away is not known to be zero. With .5, slopes correlated by .9 are covered by 90 % (binomial) for 92 %; with .96, a
column that repeats another has twice the variance."""

SHAPES = (0.5, 1.0, 1.5, 2.0)
"""Powers of a main effect's penalty that are averaged over: classes of functions, from rougher than the penalty's to
much smoother. With the penalty's own alone, a cosine is covered by 97 to 99 % and an exponential function by 90 to
96 %; with these, by 95 to 97 % and 93 to 97 %."""

TOLD_APART = 0.5
"""Root of the share of a coordinate's information that others do not have, from which on the data tell its column from
others. With 1 columns correlated by .9 keep variance that they do not have (97 % for 96.5 %), with .25 one that repeats
another does."""

MOST_COORDINATES = 2_500
"""Of a linear predictor, in which its functions are written down: factors have their smoothest ones if there are many.
With several linear predictors, divided by the root of their number."""

MOST_CORRELATED = 600
"""Of these, those with correlations: main effects, and coordinates of factors that data say most about. The others have
a variance each. Standard errors of new rows of concrete and wine are those with all 2,497 and 1,927 of them to
4 % in the median, of most rows to 15 %; bands of surfaces of benchmarks.bands, of 859, do not change down to 400."""

FEW_ROWS = 300
"""Up to here variances are those of all coordinates together, by a matrix of the rows: what few rows say is shared by
many coordinates. New targets of 150 rows with 8 columns and little noise are covered by 89 %, without it by 83 %."""

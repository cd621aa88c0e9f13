"""Constants of subsample fits: the sample, and quasi-Newton passes over all rows."""

from __future__ import annotations

from ahofm.rows import RAW_SAMPLE_ROWS

SAMPLE_ROWS = 50_000
"""Rows of the sample that the variational fit is made to: it gives initial smoothing parameters, the dispersion and the
initial coefficients."""

LARGEST_EVENT_FRACTION = 0.5
"""Most of a sample that are events, where these are rare. Measured on claims (validation rows of the training part of
split 0, states 20): random samples .5641, with all events of the raw sample .5624. Other fractions not varied."""

SUBSAMPLE_ROWS = RAW_SAMPLE_ROWS
"""Rows above which the default solver is "subsample": at order 3 and rank 12 both solvers take as long there, with
about the same error."""

PASSES, LOWER_ORDER_PASSES = 44, 12
"""Most passes over all rows: at the highest order, and at each of those below."""

LEAST_SIGNAL_TO_NOISE = 0.1
"""Least ratio of the variance of a factor's term to the variance that noise alone gives it (degrees of freedom over
information). Less than 1, as terms of the sample are shrunk. Measured: 1 loses real factors now and then (Poisson
random walks .045 to .084)."""

LEAST_FACTOR_SQUARE = 1e-18
"""Lower bound of a factor's mean square, by which that of its step is divided."""

LONGEST_MAIN_STEP = 1.0
"""Longest step of a main effect at a code by an undamped block solve, in units of the linear predictor, where losses
are not quadratic: at codes without events in the sample the curvature is near zero, and all rows may have some.
Measured on claims (610,000 policies, state 400): deviance .5757 for .5810; all 678,013 at order 2: .560 for .573."""

FELLNER_SCHALL_STEPS = 5
"""Fellner-Schall steps between two descents. They need no pass over the rows, and the parameters of factors that shrink
to zero take many steps."""

QUASI_NEWTON_MEMORY = 10
"""Steps that the quasi-Newton matrix remembers."""

LEAST_PREDICTED_DECREASE = 0.5
"""A descent ends when the predicted decrease is less, in units of log-likelihood: the expected decrease by one
coefficient's sampling error."""

DESCENTS = 4
"""Most descents; smoothing parameters are estimated again after each but the last."""

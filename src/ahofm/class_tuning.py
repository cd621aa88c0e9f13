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

LEAST_LOADING = 0.02
"""Root mean square of a factor's loadings at the start, at least."""

LEAST_TEMPERING_LOSS = 1e-9
"""Of constants, to compare the loss of main effects with."""

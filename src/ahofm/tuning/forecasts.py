"""Constants of forecasts of the time and memory of a fit: sizes of the timed probes, and usual numbers of sweeps."""

from __future__ import annotations

PROBED_PASS_ROWS = 20_000
"""Rows of the larger of two timed passes."""

PROBED_SMALL, PROBED_LARGE = 2_000, 5_000
"""Rows of the two timed fits. Most codes must occur in the smaller one: otherwise the number of small solves grows with
the rows."""

TRACED_ROWS = 500, 2_000
"""Rows of the two fits whose memory is traced."""

NOMINAL_SWEEP = 1e-6
"""Seconds of a row in a sweep of main effects, where a probe fails."""

PROBED_SWEEPS = 2
"""Timed sweeps of every stage. The time of the first includes that of the initial factors and row states."""

FIRST_SWEEPS = 2.0
"""Number of sweeps of a stage that cost as much as the first, as row states are built again."""

OVERHEAD_BYTES = 30e6
"""Bytes of any fit, whatever its size."""

FEWEST_ROWS_FOR_THREADS = 3_000
"""Rows of a fit without the native engine, for fits side by side: with fewer rows most of the work is small steps that
hold Python's lock."""

LIKELY_MAIN, LIKELY_MAIN_ONLY, LIKELY_INNER, LIKELY_SHORT_LAST, LIKELY_LONG_LAST = 1.0, 0.1, 0.9, 0.85, 0.7
"""Fractions of the most sweeps that stages usually make: of main effects before interactions and alone, below the last
order, and at the last order, where few sweeps are allowed as for large samples, and where many are."""

LIKELY_PASSES = 0.65
"""Fraction of the most passes that are usually made."""

SOLVE_COST_ROWS, BASE_COST_FUNCTIONS, PASS_COST_SWEEPS = 1_000, 2, 1 / 12
"""A sweep costs as much for its small solves as for so many rows, and without factors as much as so many factors; a
pass over the rows for gradients costs this fraction of a sweep."""

BUSY_CLASS_NUMBERS = 12, 4
"""Numbers of a row that a fit with shared curves holds at most, per factor and per class. Counted in the code."""

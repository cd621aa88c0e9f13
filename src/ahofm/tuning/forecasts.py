"""Constants of forecasts: how much is tried to tell what a fit will cost."""

from __future__ import annotations

PROBED_PASS_ROWS = 20_000
"""Rows of the larger one of two passes."""

PROBED_SMALL, PROBED_LARGE = 2_000, 5_000
"""Rows that are swept over: enough for most codes to be there, or the small solves would seem to grow with the rows."""

TRACED_ROWS = 500, 2_000
"""Rows of two fits whose memory is looked at."""

NOMINAL_SWEEP = 1e-6
"""Seconds of a row in a sweep of main effects, where none can be made."""

PROBED_SWEEPS = 2
"""Of every stage. The first of them also makes the stage's factors, and the rows' states from scratch."""

FIRST_SWEEPS = 2.0
"""Sweeps of a stage that cost as much as the first: states are made again now and then."""

OVERHEAD_BYTES = 30e6
"""That any fit takes."""

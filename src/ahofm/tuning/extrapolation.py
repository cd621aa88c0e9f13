"""Constants of predictions beyond the training range."""

LINE_FIT = 0.999
"""Least r^2, over the training rows, of a main effect against its column, where it goes on as a line."""

LEAST_LINE_CODES = 10
"""Fewest distinct values of a column whose main effect may go on as a line: through two points there always is one."""

LEAST_LINE_SHARE = 1e-6
"""Least share of a line in the variance of all main effects: what is smaller is rounding, and stays at the border."""

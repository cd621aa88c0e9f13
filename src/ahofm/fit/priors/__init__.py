"""Gaussian priors of a column's functions, one file each: spline, random walk, independent values, sums of these."""

"""Staged, tempered mean-field variational Bayes by coordinate ascent over columns."""

"""Candidate fits, their cross-validation, stacking weights, and the model that they are merged into."""

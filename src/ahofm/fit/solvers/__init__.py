"""Solvers: penalised ones that minimise an objective, and variational ones that estimate smoothing parameters."""

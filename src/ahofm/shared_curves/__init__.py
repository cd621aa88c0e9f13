"""Several classes with shared curves: every class weighs the same factors by loadings of its own."""

from ahofm.shared_curves.class_fit import ClassFit
from ahofm.shared_curves.class_rows import ClassRows
from ahofm.shared_curves.problem import ClassProblem
from ahofm.shared_curves.shared_fit import fit_factors, fit_mains

__all__ = ["ClassFit", "ClassProblem", "ClassRows", "fit_factors", "fit_mains"]

"""Shapes of fitted linear predictors: the nearest one that is monotone, convex or concave in some columns."""

from ahofm.fit.shapes.constrain import constrained

__all__ = ["constrained"]

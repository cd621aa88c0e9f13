"""Several classes with shared curves: every class weighs the same factors by loadings of its own."""

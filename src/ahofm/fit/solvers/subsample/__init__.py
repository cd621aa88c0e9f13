"""A variational fit to a sample of the rows, then quasi-Newton passes over all rows."""

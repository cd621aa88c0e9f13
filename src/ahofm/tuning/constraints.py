"""Constants of constrained fits: chosen interactions and shapes."""

MOST_GROUPS = 100
"""Most groups of columns that may interact. Each has factors of its own, which every pass over the rows pays for."""

LEAST_GROUP_RANK = 2
"""Least number of factors of a group, where the rank is automatic and groups share it. With the whole rank for each of
two overlapping groups, fits to 20,000 simulated policies had errors of .141 (.050 with a shared rank, .051 without
constraints); with another seed .058 (.069 shared, .061 without)."""

JOINT_COLUMNS = 40
"""Most columns of a fit whose pairs start from one spectrum for all groups, and share the rank. Their functions are
nearly always few enough for a dense covariance."""

EQUAL_GROUPS_FRACTION = 0.95
"""Groups that keep at least this fraction of what the best one keeps of a new factor are as good. Not varied."""

MOST_TRIPLE_PRODUCTS = 3e8
"""Most multiplications for the minima of triples over pairs of partners; beyond, intervals bound each factor."""

SHAPE_ROWS = 20_000
"""Rows that weigh changes of a linear predictor when it is given a shape."""

SHAPE_BLOCKS, FEWEST_SHAPE_BLOCKS = 120, 12
"""Blocks of codes, of about equal weight, in which factors of a group shrink by the same fraction: for all groups
together, and at least for each."""

MOST_SHAPE_GROUPS = 24
"""Most groups of factors of one loading that shrink by themselves."""

SHAPE_PASSES = 4
"""Passes over all constrained columns in which factors shrink block by block; then they shrink as a whole."""

LEAST_SHAPE_MASS, SHAPE_HINGE_STEPS = 1e-12, 50
"""Fraction of the weight that every code has at least in constrained fits; and most iterations of nonnegative least
squares for convex and concave effects, per code."""

LEAST_SHAPE_WEIGHT, LEAST_SHAPE_RANGE = 1e-9, 1e-300
"""Fraction of the rows' weight that a code of a monotone effect has at least in isotonic regression; and range of an
effect, or diagonal of a Gram matrix, where it is a divisor."""

SHAPE_STEP_ROOM, SHAPE_RIDGE = 1e-6, 1e-8
"""Of the least squares for fractions of factors' steps: steps of the main effect that are allowed beyond its present
ones, as a fraction of its range over all steps; and added to the diagonal of the correlation matrix."""

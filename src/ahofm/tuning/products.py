"""Constants of product factors."""

PRODUCT_RANK, LARGE_SAMPLE_PRODUCT_RANK = 16, 32
"""Number of product factors, of small and of large samples. Measured on a prototype, one split each: concrete, airfoil
and energy gain from 8 to 16, kin8nm (7,400 rows) from 16 to 32 and not from 32 to 48."""

PRODUCT_SWEEPS, PRODUCT_SEARCH_SWEEPS = 60, 25
"""Most sweeps of product factors, in ensemble members and in candidate fits."""

PRODUCT_TEMPERINGS = 1.0, 0.5, 0.0
"""Temperings of the candidates with product factors; 0 stands for a function of the noise. With 1 a single product is
found in noise, and an additive truth keeps no products; little noise and many terms need lower values."""

PRODUCT_UNEXPLAINED = 0.15
"""Fraction of the variance that other candidates leave on the validation rows of the first part, above which product
factors are fitted with a tempering of 1 only. With lower values they follow the noise, in the longer fits to all rows
more than the validation rows show: an additive truth of 1,000 rows with noise of .36 had errors of 1.08 and 1.21.
Measured on splits 10 and 11 of seven sets and five simulations."""

PRODUCT_RACE_STANDARD_ERRORS = 1.0
"""Standard errors of the difference on the validation rows of the first part, from which on a candidate with product
factors is not fitted to the other parts."""

PRODUCT_COLUMNS, PRODUCT_ROWS = 30, 20_000
"""Most columns of a default fit with candidates of product factors, and rows below which it has them."""

PRODUCT_START_STD, PRODUCT_START_COLUMNS = 0.5, 8
"""Standard deviation of the functions that product factors start from, relative to their constant; with more columns it
decreases with the root of their number, so that the variance of the initial products does not grow with the number of
columns. Measured on a prototype: .25 and 1 are as good for eight columns."""

PRODUCT_START_RIDGE, LEAST_START_LOADING = 0.05, 0.02
"""Ridge of the regression that loadings start from, in units of the products' variances, and the smallest loading, in
units of the residual's standard deviation: with a loading of zero the gradient of a factor is zero."""

CONSTANT_PRECISION = 1.0
"""Prior precision of the constants of a product factor's functions, whose root mean square is one."""

LEAST_PRODUCT_SCALE = 1e-8
"""Root mean square below which a function counts as zero and is not scaled to one."""

LEAST_PRODUCT_VALUE = 1e-6
"""Least absolute mean of a function, whose root mean square is one, in row states of products, which are divided by it:
too small to change predictions."""

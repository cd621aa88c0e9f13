"""What each kind promises on its own."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.interpolate import BSpline

from ahofm.columns import Cyclic, Encoder, Linear, RandomWalk, Spline, SplineIID


def book_of(kind, x, **settings):
    return Encoder.learn(np.asarray(x, dtype=float)[:, None], kind, **settings).codebooks[0]


@pytest.mark.parametrize("distinct", range(3, 30))
@pytest.mark.parametrize("knots", ["quantile", "uniform"])
def test_few_distinct_values_get_as_many_functions_as_they_can_carry(distinct, knots):
    x = np.tile(np.sort(np.random.default_rng(distinct).normal(size=distinct)), 3)
    if knots == "uniform":
        x = np.tile(np.arange(distinct), 3)
    book = book_of(Spline(n_basis=12, knots=knots), x)
    assert book.size == min(12, distinct)
    assert np.linalg.matrix_rank(book.basis.toarray()) == book.size


def test_spline_is_scipys():
    x = np.linspace(-1.0, 3.0, 50)
    basis = book_of(Spline(knots=(0.0, 1.0, 1.5)), x).functions
    knots = np.array([-1.0] * 4 + [0.0, 1.0, 1.5] + [3.0] * 4)
    np.testing.assert_allclose(basis.evaluate(x).toarray(), BSpline.design_matrix(x, knots, 3).toarray(), atol=1e-12)


@pytest.mark.parametrize(
    ("degree", "order", "knots"),
    [(degree, order, (0.1, 0.35, 0.5, 0.8)) for degree in range(1, 6) for order in range(1, min(degree, 3) + 1)]
    + [(3, 2, (0.3, 0.3, 0.7)), (5, 3, (0.3, 0.3, 0.7))],
)
def test_roughness_is_the_integral_of_the_squared_derivative(degree, order, knots):
    """On the unit scale, with knots that are uneven but within bounds, in units of their mean distance."""
    book = book_of(Spline(knots=knots, degree=degree, penalty_order=order), np.linspace(0.0, 1.0, 50))
    coef = np.random.default_rng(0).normal(size=book.size)
    (penalty,) = book.penalties
    assert penalty.name == "roughness"
    derivative = BSpline(book.functions.knots, coef, degree).derivative(order)
    places = np.unique(book.functions.knots)
    integral = sum(quad(lambda x: derivative(x) ** 2, *piece)[0] for piece in itertools.pairwise(places))
    expected = integral / (len(places) - 1.0) ** (2 * order - 1)
    assert coef @ (penalty.matrix @ coef) == pytest.approx(expected)


@pytest.mark.parametrize(("degree", "order"), [(1, 2), (1, 3), (2, 2), (3, 1), (3, 2), (3, 3), (2, 3)])
@pytest.mark.parametrize("knots", ["quantile", "uniform"])
def test_polynomials_of_lower_degree_are_free(degree, order, knots):
    """Of the values themselves, as far as splines of that degree can follow them."""
    x = np.sort(np.random.default_rng(0).normal(size=400))
    book = book_of(Spline(n_basis=9, degree=degree, penalty_order=order, knots=knots), x)
    (penalty,) = book.penalties
    assert book.null_space.shape == (9, order)
    basis = book.functions.evaluate(x).toarray()
    for power in range(min(order, degree + 1)):
        coef, *_ = np.linalg.lstsq(basis, x**power, rcond=None)
        assert coef @ (penalty.matrix @ coef) == pytest.approx(0.0, abs=1e-9 * coef @ coef)


def test_no_part_of_a_range_is_left_a_line_because_others_are_wide():
    """Seven of ten values lie within a thousandth of the range: distances of knots count within bounds."""
    x = np.exp(3.0 * np.random.default_rng(0).normal(size=2000))
    (penalty,) = book_of(Spline(), x).penalties
    stiff = penalty.matrix.diagonal()
    assert stiff.max() < 1e7 * stiff.min()


UNEVEN = np.array([1.0, 3.0, 7.0, 14.0, 28.0, 56.0, 90.0, 91.0, 100.0, 120.0, 180.0, 270.0, 360.0, 365.0])
LARGE_GAPS = ((56.0, 90.0), (91.0, 100.0), (120.0, 180.0), (180.0, 270.0), (270.0, 360.0))


@pytest.mark.parametrize(
    ("kind", "gaps"),
    [
        (Spline(), LARGE_GAPS),
        (SplineIID(), LARGE_GAPS),
        (Spline(n_basis=6, outside="linear"), ((56.0, 90.0), *LARGE_GAPS[-2:])),  # two values share a function
    ],
)
def test_functions_are_lines_between_values_that_are_far_apart(kind, gaps):
    book = book_of(kind, UNEVEN)
    smooth = getattr(book.functions, "smooth", book.functions)
    assert smooth.gaps == gaps
    for low, high in smooth.gaps:
        at = np.linspace(low, high, 11)
        ends = book.evaluate(np.array([low, high])).toarray()
        expected = np.linspace(ends[0], ends[1], 11)
        np.testing.assert_allclose(book.evaluate(at).toarray(), expected, atol=1e-12)
        np.testing.assert_allclose(book.pieces.evaluate(at), expected, atol=1e-12)
    # elsewhere they are splines, and at values and at the ends of gaps both are the same
    splines = replace(smooth, gaps=())
    other = np.array([2.0, 10.0, 110.0, 362.0, *UNEVEN])
    np.testing.assert_allclose(smooth.evaluate(other).toarray(), splines.evaluate(other).toarray(), atol=1e-12)
    np.testing.assert_allclose(smooth.pieces().evaluate(other), splines.pieces().evaluate(other), atol=1e-12)


@pytest.mark.parametrize("x", [np.arange(14.0), np.linspace(0.0, 1.0, 200) ** 2, np.array([0.0, 5.0, 10.0])])
def test_evenly_spaced_values_have_no_gaps(x):
    assert book_of(Spline(), x).functions.gaps == ()


def test_bins_have_no_gaps():
    """Rows lie between the means of bins."""
    x = np.concatenate([np.random.default_rng(0).normal(size=200), [50.0]])
    assert book_of(Spline(), x, max_codes=30).functions.gaps == ()
    assert book_of(Spline(), x).functions.gaps != ()


def test_quantile_knots_follow_distinct_values_not_rows():
    """A value repeated many times does not pull knots to itself."""
    x = np.arange(100.0)
    once, often = book_of(Spline(), x), book_of(Spline(), np.concatenate([x, np.full(1000, 50.0)]))
    np.testing.assert_array_equal(once.functions.knots, often.functions.knots)


def test_walk_is_the_identity_on_its_codes_and_lines_between():
    book = book_of(RandomWalk(), [0.0, 1.0, 4.0])
    np.testing.assert_array_equal(book.functions.evaluate(book.support.values).toarray(), np.eye(3))
    np.testing.assert_allclose(book.evaluate(np.array([2.0])).toarray(), [[0.0, 2 / 3, 1 / 3]])
    coef = np.array([1.0, 4.0, 2.0])
    difference, ridge = book.penalties
    assert (difference.name, ridge.name) == ("roughness", "ridge")
    assert coef @ (difference.matrix @ coef) == pytest.approx(9.0 + 4.0)
    assert coef @ (ridge.matrix @ coef) == pytest.approx(21.0)


def test_mixed_is_a_spline_and_a_level_per_code():
    x = np.repeat(np.arange(30.0), 2)
    mixed, spline = book_of(SplineIID(n_basis=8), x), book_of(Spline(n_basis=8), x)
    matrix = mixed.functions.evaluate(np.arange(30.0)).toarray()
    np.testing.assert_array_equal(matrix[:, :8], spline.functions.evaluate(np.arange(30.0)).toarray())
    np.testing.assert_array_equal(matrix[:, 8:], np.eye(30))
    assert [penalty.name for penalty in mixed.penalties] == ["roughness", "ridge"]


def test_cyclic_meets_itself():
    hours = np.tile(np.arange(24.0), 5)
    basis = book_of(Cyclic(n_basis=10), hours).functions
    assert basis.period == 24.0
    coef = np.random.default_rng(0).normal(size=10)
    around = np.array([-1e-6, 0.0, 1e-6, 24 - 1e-6, 24.0, 24 + 1e-6])
    curve = basis.evaluate(around) @ coef
    np.testing.assert_allclose(curve[:3], curve[3:], atol=1e-12)
    slope = np.diff(curve[:3]) / 1e-6
    assert slope[0] == pytest.approx(slope[1], abs=1e-4)


def test_cyclic_period_by_default_is_the_range_unless_evenly_spaced():
    assert book_of(Cyclic(), [0.0, 1.0, 5.0, 360.0]).functions.period == 360.0
    assert book_of(Cyclic(), [1.0, 2.0, 3.0, 4.0]).functions.period == 4.0


def test_linear_is_x():
    book = book_of(Linear(), [1.0, 2.0, 5.0])
    np.testing.assert_array_equal(book.evaluate(np.array([1.5, 9.0, -3.0])).toarray()[:, 0], [1.5, 5.0, 1.0])
    np.testing.assert_array_equal(book_of(Linear("linear"), [1.0, 5.0]).evaluate(np.array([9.0])).toarray(), [[9.0]])


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (Spline(n_basis=1), "n_basis must be an integer of at least 2, got 1"),
        (Spline(n_basis=3.5), "n_basis must be an integer"),
        (Spline(degree=0), "degree must be"),
        (Spline(penalty_order=0), "penalty_order must be"),
        (Spline(knots="even"), "knots must be 'quantile', 'uniform' or an array, got 'even'"),
        (Spline(n_basis=9, knots=(1.0,)), "1 inner knots of degree 3 make 5 functions, but n_basis=9"),
        (Spline(degree=1, knots=(4.0,) * 3), "a knot is repeated more than 2 times"),
        (Spline(outside="repeat"), "outside must be 'auto', 'clamp' or 'linear', got 'repeat'"),
        (Spline(max_codes=1), "max_codes must be an integer of at least 2"),
        (SplineIID(degree=0), "degree must be"),
        (RandomWalk(outside="nan"), "outside must be"),
        (Linear(outside="nan"), "outside must be"),
        (Cyclic(period=0.0), "period must be a positive number"),
    ],
)
def test_settings_are_checked(kind, message):
    with pytest.raises(ValueError, match=message):
        book_of(kind, np.arange(9.0))


def test_bad_knots_name_the_column():
    with pytest.raises(ValueError, match=r"column 'x0': knot 9 is not inside the data's range \(0, 8\); leave it out"):
        book_of(Spline(knots=(1.0, 9.0)), np.arange(9.0))
    with pytest.raises(ValueError, match="finite numbers"):
        Spline(knots=[np.nan])


def test_too_wide_for_a_period():
    with pytest.raises(ValueError, match=r"column 'x0': the range .* give Cyclic\(period=...\)"):
        book_of(Cyclic(), [-1.7e308, 0.0, 1.7e308])

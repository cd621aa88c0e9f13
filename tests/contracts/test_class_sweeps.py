"""Sweeps of several classes: compiled ones against the reference, from the same states."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from ahofm.columns import RandomWalk
from ahofm.orders import PRODUCT
from ahofm.shared_curves.class_fit import ClassFit
from ahofm.shared_curves.factors import SharedFactors
from ahofm.shared_curves.main_effects import ClassMains, JointDesign
from ahofm.shared_curves.problem import ClassProblem, ClassState
from ahofm.shared_curves.shared_fit import CurveSettings, fit_factors, fit_mains
from ahofm.shared_curves.starts import random_start
from ahofm.shared_curves.sweeps import CompiledSweeps, ReferenceSweeps, Sweeps, sweeps_of
from ahofm.training.factor_groups import FactorGroups
from ahofm.tuning.classes import LEAST_LOADING
from tests.shared_curves.problems import problem

KINDS: list[Callable[..., Sweeps]] = [ReferenceSweeps, CompiledSweeps]
PROBLEMS = [{}, {"in_ranks": True}, {"offset": True, "n_classes": 3}, {"n": 61, "n_classes": 5}]


def _joint(p: ClassProblem, *, alone: bool = False) -> JointDesign:
    """``alone``: the intercept, and all main effects column by column."""
    found = JointDesign.of(p.columns, p.coded)
    if not alone:
        return found
    return JointDesign(found.matrix[:, :1].copy(), found.columns[:1], found.group[:1], found.relative_penalty[:1])


def _state(p: ClassProblem, joint: JointDesign, ranks: dict[int, int]) -> ClassState:
    coef = np.zeros((joint.matrix.shape[1], p.rows.n_classes))
    coef[0] = p.rows.constants()
    eta = np.tile(coef[0][:, np.newaxis], p.rows.n_rows)
    mains = ClassMains(coef, joint.first_lam(p.columns))
    if not ranks:
        return ClassState(mains, None, eta)
    curves, constants = random_start(p.columns, ranks, np.random.default_rng(0))
    factors = SharedFactors(ranks, p.columns, p.coded, curves, p.groups, constants)
    factors.start_loadings(p.rows, eta, LEAST_LOADING)
    return ClassState(mains, factors, eta + factors.eta())


def _alike(one: ClassState, other: ClassState, tol: float) -> None:
    np.testing.assert_allclose(one.eta, other.eta, rtol=tol, atol=tol)
    np.testing.assert_allclose(one.mains.coef, other.mains.coef, rtol=tol, atol=tol)
    np.testing.assert_allclose(one.mains.lam, other.mains.lam, rtol=tol)
    assert one.mains.posteriors.keys() == other.mains.posteriors.keys()
    for j, posterior in one.mains.posteriors.items():
        np.testing.assert_allclose(posterior.mean, other.mains.posteriors[j].mean, rtol=tol, atol=tol)
        np.testing.assert_allclose(one.mains.column_lam[j], other.mains.column_lam[j], rtol=tol)
    if one.factors is None:
        assert other.factors is None
        return
    assert other.factors is not None
    np.testing.assert_allclose(one.factors.loadings, other.factors.loadings, rtol=tol, atol=tol)
    np.testing.assert_allclose(one.factors.loading_variance, other.factors.loading_variance, rtol=tol, atol=tol)
    np.testing.assert_allclose(one.factors.terms, other.factors.terms, rtol=tol, atol=tol)
    for own, same in zip(one.factors.columns, other.factors.columns, strict=True):
        for part in ("values", "variance", "lam"):
            np.testing.assert_allclose(getattr(own, part), getattr(same, part), rtol=tol, atol=tol)


@pytest.mark.parametrize("options", PROBLEMS)
@pytest.mark.parametrize("alone", [False, True])
@pytest.mark.parametrize("update_lam", [False, True])
def test_steps_of_main_effects(options: dict, alone: bool, update_lam: bool) -> None:
    p = problem(**options)
    joint = _joint(p, alone=alone)
    found = [kind(p, joint, _state(p, joint, {})) for kind in KINDS]
    for _ in range(3):
        for sweeps in found:
            sweeps.sweep_mains(update_lam=update_lam)
        assert found[0].loss() == pytest.approx(found[1].loss(), rel=1e-9)
    _alike(found[0].state(), found[1].state(), 1e-7)


@pytest.mark.parametrize("options", PROBLEMS)
@pytest.mark.parametrize("ranks", [{2: 4}, {3: 3}, {2: 3, 3: 2}, {2: 1, 4: 2}, {PRODUCT: 3}, {2: 2, PRODUCT: 2}])
@pytest.mark.parametrize(("update_lam", "bound"), [(False, False), (True, False), (False, True)])
def test_sweeps_of_curves_and_loadings(options: dict, ranks: dict[int, int], update_lam: bool, bound: bool) -> None:
    p = problem(**options)
    joint = _joint(p)
    found = [kind(p, joint, _state(p, joint, ranks)) for kind in KINDS]
    for number in (0, 1, 9):  # forwards, backwards, and with states from scratch
        for sweeps in found:
            if update_lam and number == 1:
                sweeps.temper(0.7)
            sweeps.sweep(number, update_lam=update_lam, bound=bound)
        assert found[0].loss(bound=bound) == pytest.approx(found[1].loss(bound=bound), rel=1e-8)
    _alike(found[0].state(), found[1].state(), 1e-6)


@pytest.mark.parametrize("update_lam", [False, True])
def test_columns_that_groups_leave_out(update_lam: bool) -> None:
    groups = FactorGroups(5, ((0, 1, 4), (2, 3)))
    p = replace(problem(), groups=groups)
    joint, ranks = _joint(p), {2: 4}
    found = [kind(p, joint, _state(p, joint, ranks)) for kind in KINDS]
    for number in (0, 1):
        for sweeps in found:
            sweeps.sweep(number, update_lam=update_lam)
    _alike(found[0].state(), found[1].state(), 1e-7)
    factors = found[1].state().factors
    assert factors is not None
    for j, own in enumerate(factors.columns):
        left_out = factors.left_out(j)
        assert left_out is not None
        assert not own.values[:, left_out > 0.0].any()


@pytest.mark.parametrize("learned", [False, True])
@pytest.mark.parametrize("ranks", [{2: 3, 3: 2}, {PRODUCT: 3}])
def test_whole_fits(ranks: dict[int, int], learned: bool) -> None:
    """In the columns' bases, from main effects on."""
    fits = []
    for compiled in (False, True):
        p = replace(problem(offset=True), compiled=compiled)
        joint = _joint(p)
        assert type(sweeps_of(p, joint, _state(p, joint, {}))) is KINDS[compiled]
        start = fit_mains(p, joint, lambda _: False)
        before = start.eta.copy(), start.mains.coef.copy(), start.mains.posteriors[3].mean.copy()
        settings = CurveSettings(ranks, 8, learned=learned)
        fits.append(ClassFit.of(p, joint, fit_factors(p, joint, start, settings, 0, lambda _: False)))
        after = start.eta, start.mains.coef, start.mains.posteriors[3].mean
        assert all((a == b).all() for a, b in zip(before, after, strict=True))  # the start may serve other fits
    one, other = fits
    assert one.loss == pytest.approx(other.loss, rel=1e-6)
    for part in ("intercepts", "loadings", "squares"):
        np.testing.assert_allclose(getattr(one, part), getattr(other, part), rtol=1e-4, atol=1e-5)
    for part in ("mains", "curves", "main_centrings", "centrings"):
        for a, b in zip(getattr(one, part), getattr(other, part), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)
    for order, lam in one.smoothing_parameters.items():
        np.testing.assert_allclose(lam, other.smoothing_parameters[order], rtol=1e-4)


def test_priors_of_ones_own_take_the_reference() -> None:
    class Mine(type(problem().columns[1].priors.factors)):  # type: ignore[misc]
        """A random walk under another name."""

    p = problem()
    walk = p.columns[1]
    assert isinstance(walk.priors.book.kind, RandomWalk)
    own = walk.priors.factors
    mine = replace(walk.priors, factors=Mine(**{name: getattr(own, name) for name in own.__dataclass_fields__}))
    changed = replace(p, columns=[*p.columns[:1], replace(walk, priors=mine), *p.columns[2:]])
    joint = _joint(p)
    assert isinstance(sweeps_of(p, joint, _state(p, joint, {2: 2})), CompiledSweeps)
    assert isinstance(sweeps_of(changed, joint, _state(changed, joint, {2: 2})), ReferenceSweeps)

"""Links: the mean as a function of eta, with its first two derivatives. Where a link has no value, the mean is NaN."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeAlias

import numpy as np
from scipy.special import expit, logit

from ahofm.columns.basis import Floats

ByMean: TypeAlias = tuple[Floats, Floats, Floats]


@dataclass(frozen=True)
class Link:
    """A link for one linear predictor.

    Attributes
    ----------
    name : str
    mean : eta -> mu
    slope, bend : eta -> first and second derivative of mu
    eta : mu -> eta
    """

    name: str
    mean: Callable[[Floats], Floats]
    slope: Callable[[Floats], Floats]
    bend: Callable[[Floats], Floats]
    eta: Callable[[Floats], Floats]


def quiet() -> np.errstate:
    """Where overflow to infinity is an answer and not a mishap: a context without NumPy's warnings."""
    return np.errstate(over="ignore", under="ignore", invalid="ignore", divide="ignore")


def _exp(eta: Floats) -> Floats:
    with quiet():
        return np.asarray(np.exp(eta))


def _inverse_power(eta: Floats, power: float) -> Floats:
    with quiet():
        return np.asarray(np.where(eta > 0, eta, np.nan) ** -power)


LINKS: Mapping[str, Link] = MappingProxyType(
    {
        link.name: link
        for link in (
            Link("identity", lambda eta: eta, np.ones_like, np.zeros_like, lambda mu: mu),
            Link("log", _exp, _exp, _exp, np.log),
            Link(
                "logit",
                expit,
                lambda eta: expit(eta) * expit(-eta),
                lambda eta: expit(eta) * expit(-eta) * (expit(-eta) - expit(eta)),
                logit,
            ),
            Link(
                "inverse",
                lambda eta: _inverse_power(eta, 1.0),
                lambda eta: -_inverse_power(eta, 2.0),
                lambda eta: 2.0 * _inverse_power(eta, 3.0),
                lambda mu: 1.0 / mu,
            ),
        )
    }
)
"""Softmax, the link of several linear predictors, is part of the multinomial family."""


def check_link(name: str, allowed: tuple[str, ...], family: str) -> None:
    """Raise ValueError when a family does not have the link."""
    if name not in allowed:
        raise ValueError(f"{family}: link must be one of {', '.join(map(repr, allowed))}, got {name!r}")


def chain(link: Link, eta: Floats, by_mean: Callable[[Floats], ByMean], *, expected: bool) -> ByMean:
    """Loss, slope and curvature by eta (n, 1), from those by the mean.

    Parameters
    ----------
    by_mean : mu -> (value, slope, curvature), each (n,)
        NaN where the family has no such mean.
    expected : bool
        The curvature is an expectation, to which the bend of the link adds nothing: the slope's expectation is zero.
    """
    one = eta[:, 0]
    with quiet():
        mu, slope = link.mean(one), link.slope(one)
        value, g, h = by_mean(mu)
        g, h = g * slope, h * slope**2 if expected else h * slope**2 + g * link.bend(one)
        valid = np.isfinite(mu) & np.isfinite(value)
    value, g, h = np.where(valid, value, np.inf), np.where(valid, g, 0.0), np.where(valid, h, 0.0)
    return value, g[:, np.newaxis], h[:, np.newaxis]

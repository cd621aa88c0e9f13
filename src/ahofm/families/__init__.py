"""Families: from targets and linear predictors to loss, slope and curvature, row by row."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from types import MappingProxyType

from ahofm.families.bernoulli import Bernoulli, QuasiBinomial
from ahofm.families.beta import Beta
from ahofm.families.family import Family
from ahofm.families.gamma import Gamma
from ahofm.families.gaussian import Gaussian
from ahofm.families.huber import Huber
from ahofm.families.location_scale import GaussianLocationScale
from ahofm.families.multinomial import Multinomial
from ahofm.families.negative_binomial import NegativeBinomial
from ahofm.families.ordinal import Ordinal
from ahofm.families.poisson import Poisson, QuasiPoisson
from ahofm.families.quantile import Laplace, Quantile
from ahofm.families.survival import LogLogistic, LogNormal, Weibull
from ahofm.families.target import TargetRange
from ahofm.families.tweedie import Tweedie
from ahofm.families.units import Units
from ahofm.families.zero_inflated import ZeroInflatedPoisson

__all__ = [
    "FAMILIES",
    "Bernoulli",
    "Beta",
    "Family",
    "Gamma",
    "Gaussian",
    "GaussianLocationScale",
    "Huber",
    "Laplace",
    "LogLogistic",
    "LogNormal",
    "Multinomial",
    "NegativeBinomial",
    "Ordinal",
    "Poisson",
    "Quantile",
    "QuasiBinomial",
    "QuasiPoisson",
    "TargetRange",
    "Tweedie",
    "Units",
    "Weibull",
    "ZeroInflatedPoisson",
    "find_family",
]

FAMILIES: Mapping[str, type[Family]] = MappingProxyType(
    {
        "gaussian": Gaussian,
        "bernoulli": Bernoulli,
        "binomial": Bernoulli,
        "quasi_binomial": QuasiBinomial,
        "multinomial": Multinomial,
        "poisson": Poisson,
        "quasi_poisson": QuasiPoisson,
        "negative_binomial": NegativeBinomial,
        "gamma": Gamma,
        "tweedie": Tweedie,
        "quantile": Quantile,
        "laplace": Laplace,
        "huber": Huber,
        "gaussian_location_scale": GaussianLocationScale,
        "ordinal": Ordinal,
        "beta": Beta,
        "zero_inflated_poisson": ZeroInflatedPoisson,
        "log_normal": LogNormal,
        "log_logistic": LogLogistic,
        "weibull": Weibull,
    }
)


def find_family(family: str | Family) -> Family:
    """Find the family of a name.

    Parameters
    ----------
    family : str or Family
        A key of ``ahofm.families.FAMILIES``, or a family.

    Returns
    -------
    Family
        With its default settings; a family is returned as it is.

    Raises
    ------
    ValueError
        For an unknown name, with the nearest known one.

    Examples
    --------
    >>> find_family("poisson")
    Poisson(link='log', quasi=False)
    >>> find_family("poison")
    Traceback (most recent call last):
    ValueError: family 'poison' is unknown; did you mean 'poisson'?
    """
    if isinstance(family, Family):
        return family
    if isinstance(family, type) and issubclass(family, Family):
        raise TypeError(f"family is the class {family.__name__}; add parentheses: {family.__name__}(...)")
    if not isinstance(family, str):
        raise TypeError(f"family must be a name or a Family, got {family!r}; names are {', '.join(FAMILIES)}")
    if family not in FAMILIES:
        close = get_close_matches(family.lower().replace("-", "_").replace(" ", "_"), FAMILIES, n=1)
        remedy = f"did you mean {close[0]!r}?" if close else f"names are {', '.join(FAMILIES)}"
        raise ValueError(f"family {family!r} is unknown; {remedy}")
    if FAMILIES[family] is Multinomial:
        raise ValueError(
            "family 'multinomial' needs the number of classes: give Multinomial(n_classes=3), "
            "or use the classifier, which counts them itself"
        )
    return FAMILIES[family]()

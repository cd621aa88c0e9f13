"""What a family is like: which targets it takes, how many linear predictors it has, and what its numbers mean."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Literal, TypeAlias

from ahofm.families.target import TargetRange

Curvature: TypeAlias = Literal["second derivative", "expectation", "majorant"]


class Traits(ABC):
    """Properties of a family; all but the targets have defaults."""

    @property
    @abstractmethod
    def target(self) -> TargetRange:
        """Which targets it takes; a class attribute will do."""

    @property
    def builtin(self) -> str | None:
        """Name of the kernel's own loss that equals ``loss``, when there is one."""
        return None

    @property
    def name(self) -> str:
        """How it is called in messages and tables."""
        return type(self).__name__

    @property
    def n_eta(self) -> int:
        """Number K of linear predictors."""
        return 1

    @property
    def takes_flat_offset(self) -> bool:
        """Whether an offset with one number per row is clear: it goes to the first linear predictor."""
        return True

    @property
    def curvature(self) -> Curvature:
        """What h is; never negative in any case.

        "second derivative" of the loss by a linear predictor; its "expectation" over the family's targets (the Fisher
        information); or a "majorant": the quadratic with slope g and curvature h equals the loss at eta and is nowhere
        below it, so that a full step never increases the loss.
        """
        return "second derivative"

    @property
    def logarithmic(self) -> bool:
        """Whether linear predictors are logarithms, of means or of odds: beyond 20 they say never or always."""
        return False

    @property
    def open(self) -> bool:
        """Whether it has parameters that ``learned`` estimates; a field of the families that have."""
        return False

    @property
    def censored(self) -> bool:
        """Whether targets are times, negative where nothing had happened until then."""
        return False

    @property
    def dispersed(self) -> bool:
        """Whether the loss counts in units of a dispersion that is estimated; otherwise that is 1."""
        return False

    @property
    def uneven(self) -> bool:
        """Whether the dispersion may differ between rows: ``distribution`` then takes one number per row as well."""
        return False

    @property
    def if_overdispersed(self) -> str | None:
        """What to do where targets vary more than it says; None where its dispersion is estimated, or has none."""
        return None

"""Several effects in one figure: a curve for each column, a surface for each pair."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ahofm.explain import Effect, effect, top_interactions, variance_shares
from ahofm.explain.arguments import column_of, model_of
from ahofm.model import Model
from ahofm.plot.canvas import many_axes
from ahofm.plot.effects import EffectDisplay, Labels, SurfaceDisplay

_LEAST_SHARE = 5e-3
"""Of the variance: pairs with less are not drawn unless they are asked for."""


@dataclass
class EffectsDisplay:
    """Main effects and pairs, one panel each; what ``estimator.plot`` draws.

    Parameters
    ----------
    effects : sequence of Effect
        Of one or two columns each.

    Attributes
    ----------
    axes_ : array of matplotlib axes, one per effect
        After ``plot``.
    figure_ : matplotlib figure
        After ``plot``.

    Examples
    --------
    >>> from ahofm.plot import EffectsDisplay
    >>> display = EffectsDisplay.from_estimator(model, ["wind", ("rain", "sun")])
    >>> [ax.get_xlabel() for ax in display.axes_]
    ['wind', 'rain']
    """

    effects: Sequence[Effect]

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        terms: Any = None,
        *,
        ax: Any = None,
        labels: Labels = None,
        most: int = 30,
        **options: Any,
    ) -> EffectsDisplay:
        """Compute effects and draw them.

        Parameters
        ----------
        estimator : fitted estimator or model
            Whose effects are drawn.
        terms : list of column names and pairs of them, or a single name, optional
            Columns may be given by number. By default all main effects, and pairs that carry at least half a percent of
            the variance, the strongest first.
        ax : matplotlib axes, or an array of them, optional
            As many as there are terms; by default a new figure.
        labels : dict of column name to text, optional
            For axes, e.g. with units.
        most : int, default 30
            Terms at most, where ``terms`` is not given.
        **options
            Settings of ``ahofm.explain.effect``, e.g. ``scale``, ``level`` or ``linear_predictor``.

        Returns
        -------
        EffectsDisplay
            Drawn: with ``figure_`` and ``axes_``.
        """
        if terms is None:
            terms = _strongest(estimator, most, options.get("linear_predictor"))
        elif isinstance(terms, (str, int, np.integer)):
            terms = [terms]
        return cls([effect(estimator, term, **options) for term in terms]).plot(ax=ax, labels=labels)

    def plot(self, *, ax: Any = None, labels: Labels = None) -> EffectsDisplay:
        """Draw the effects.

        Parameters
        ----------
        ax : matplotlib axes, or an array of them, optional
            As many as there are effects; by default a new figure.
        labels : dict of column name to text, optional
            For axes, e.g. with units.

        Returns
        -------
        EffectsDisplay
            This one.
        """
        self.axes_ = many_axes(ax, len(self.effects), (4.0, 3.2), 3)
        self.figure_ = self.axes_[0].figure
        for found, panel in zip(self.effects, self.axes_, strict=True):
            display = EffectDisplay(found) if len(found.columns) == 1 else SurfaceDisplay(found)
            display.plot(ax=panel, labels=labels)
        return self


def _strongest(estimator: Any, most: int, linear_predictor: Any) -> list[Any]:
    """Main effects of columns that vary, and pairs above the least share, by their shares."""
    model = model_of(estimator)
    shares = variance_shares(model, linear_predictor=linear_predictor)
    terms: list[tuple[float, Any]] = [
        (float(share), column_of(model, name)) for name, share in zip(shares.columns, shares.main, strict=True)
    ]
    if model.order > 1:
        pairs = top_interactions(model, most, 2, linear_predictor=linear_predictor)
        terms += [(float(share), pair) for pair, share in zip(pairs.terms, pairs.shares, strict=True)]
    terms = [(share, term) for share, term in terms if share >= _LEAST_SHARE or not isinstance(term, tuple)]
    terms.sort(key=lambda item: -item[0])
    varying = [(share, term) for share, term in terms if isinstance(term, tuple) or _varies(model, term)]
    return [term for _, term in (varying or terms)[:most]]


def _varies(model: Model, j: int) -> bool:
    return bool(model.encoder.codebooks[j].size)

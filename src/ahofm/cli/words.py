"""A summary in a few sentences: how well it predicts, which order was kept and why, what matters."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ahofm.explain import Summary
from ahofm.model.trace import two_digits
from ahofm.orders import PRODUCT

_MATTERS = 0.01
_LARGEST = 4


def in_words(told: Summary, n_rows: int) -> Iterator[str]:
    """Sentences for somebody who sees such a model for the first time."""
    if told.validated is not None:
        found = told.validated
        whose = f"all {n_rows:,}" if found.rows == found.of else f"{found.rows:,} of {n_rows:,}"
        scores = ", ".join(
            f"{name} {value:.1%}" if name == "deviance explained" else f"{name.replace('R2', 'R²')} {value:.4g}"
            for name, value in found.scores.items()
        )
        yield f"Cross-validated on {whose} rows, each predicted by fits that had not seen it: {scores}."
    if told.deviance_explained is not None:
        yield f"On the rows that it was fitted to it explains {told.deviance_explained:.1%} of the deviance."
    yield _order(told)
    order = np.argsort(-told.shares, kind="stable")
    strong = [j for j in order if told.shares[j] >= _MATTERS]
    if strong:
        names = ", ".join(f"{told.columns[j]} ({told.shares[j]:.0%})" for j in strong[:_LARGEST])
        more = "" if len(strong) <= _LARGEST else f", and {len(strong) - _LARGEST} more with at least 1 %"
        yield f"What matters, as shares of the variance of predictions: {names}{more}."
    weak = [told.columns[j] for j in order if told.shares[j] < _MATTERS]
    if weak:
        yield f"With less than 1 %: {', '.join(weak[:8])}{' ...' if len(weak) > 8 else ''}."


def _order(told: Summary) -> str:
    """Which order was kept, and why."""
    kept = max((order for order, share in told.orders.items() if order == 1 or share > 1e-6), default=1)
    what = "no interactions: effects of single columns" if kept == 1 else f"interactions of up to {kept} columns"
    gain = {one.order: one for one in told.gains}.get(PRODUCT if PRODUCT in told.ranks and kept > 1 else kept)
    if kept > 1 and gain is not None:
        better = "better" if gain.gain >= 0.0 else "worse"
        size = f"{two_digits(100 * abs(gain.gain))} ± {two_digits(100 * gain.error)} %"
        return f"It has {what}: on rows that were not fitted they predict {size} {better} than order {gain.over}."
    if kept == 1 and told.gains:
        higher = told.gains[0]
        moved = "lowered" if higher.gain >= 0.0 else "raised"
        size = f"{two_digits(100 * abs(higher.gain))} ± {two_digits(100 * higher.error)} %"
        only = "only " if higher.gain >= 0.0 else ""
        return (
            f"It has {what}; order {higher.order} would have {moved} the loss on rows that were not fitted by "
            f"{only}{size}."
        )
    return f"It has {what}."

"""How a model was made, in words: the family, the score, the order that was kept, the settings, the versions."""

from __future__ import annotations

import platform
import re
from datetime import datetime, timezone
from importlib.metadata import metadata, version
from typing import Any

import numpy as np

from ahofm.explain import Summary
from ahofm.explain.arguments import Fitted
from ahofm.explain.summary import p_text
from ahofm.families import Family, Gaussian
from ahofm.model import Model
from ahofm.model.trace import two_digits
from ahofm.orders import PRODUCT, order_name

_WORDS = {
    "Gaussian": "numbers with normal noise of constant variance",
    "GaussianLocationScale": "numbers with normal noise whose standard deviation varies with the columns",
    "Poisson": "counts (Poisson)",
    "NegativeBinomial": "counts that vary more than Poisson counts (negative binomial)",
    "Bernoulli": "shares of successes, or 0 and 1 (binomial)",
    "Multinomial": "one of several classes (multinomial)",
    "Gamma": "positive numbers whose standard deviation grows with their mean (gamma)",
    "Tweedie": "numbers that are zero or positive, such as claim amounts (Tweedie)",
    "Quantile": "a quantile of the target",
    "Laplace": "the median of the target",
    "Huber": "numbers with outliers, which count for less (Huber)",
    "Ordinal": "ordered levels (proportional odds)",
    "Beta": "shares strictly between 0 and 1 (beta)",
    "ZeroInflatedPoisson": "counts with more zeros than Poisson counts have (zero-inflated Poisson)",
    "LogNormal": "times until an event, which may be censored (log-normal)",
    "LogLogistic": "times until an event, which may be censored (log-logistic)",
    "Weibull": "times until an event, which may be censored (Weibull)",
}
_LINKS = {
    "identity": "effects add up to the mean",
    "log": "effects multiply the mean",
    "logit": "effects multiply the odds",
    "inverse": "effects add up to the reciprocal of the mean",
}
_MEANINGS = {
    "Ordinal": "effects multiply the odds of higher levels",
    "ZeroInflatedPoisson": "effects multiply the mean count, and the odds of a zero that is no count",
    "LogNormal": "effects multiply the median time",
    "LogLogistic": "effects multiply the median time",
    "Weibull": "effects multiply the median time",
    "Multinomial": "effects multiply the odds of a class",
}
"""Of families whose effects are not those of their link on a mean."""

_SCORES = {"R2": "R²", "AUROC": "area under the ROC curve", "ECE": "calibration error"}
"""Of scores whose names in summaries are short."""


def family_words(family: Family, link: str, *, exposed: bool = False, classes: bool = False) -> str:
    """What the family is for, and what effects do."""
    name = next((own.__name__ for own in type(family).__mro__ if own.__name__ in _WORDS), "")
    kind = "two classes (binomial)" if classes and name == "Bernoulli" else _WORDS.get(name, family.name)
    kind += " per unit of exposure: rates, or hazards" if exposed else ""
    extra = "; the dispersion is estimated" if getattr(family, "quasi", False) else ""
    return f"{kind}{extra}; {_MEANINGS.get(name) or _LINKS.get(link, 'effects add up to the linear predictor')}"


def facts(model: Model, told: Summary, order: int, held_out: dict[str, Any] | None = None) -> list[dict[str, str]]:
    """Numbers for the top of the page: scores on rows that were not fitted first, that of training second.

    ``held_out`` has the number of ``rows`` that were given for it, and their ``scores``.
    """
    found = []
    if held_out is not None:
        rest = dict(held_out["scores"])
        explained = rest.pop("deviance explained", None)
        whose = f"{held_out['rows']:,} row{'s' if held_out['rows'] > 1 else ''} that were not fitted"
        whose = whose.replace("row that were", "row that was")
        found += [[f"{value:.4g}", f"{_SCORES.get(name, name)}, on {whose}"] for name, value in list(rest.items())[:2]]
        if explained is not None:
            found.append([f"{explained:.1%}", "deviance explained on these rows"])
    if told.validated is not None:
        whose = f"cross-validated on {told.validated.whose(told.n_rows)}"
        for name, value in list(told.validated.scores.items())[:2]:
            found.append([_score(name, value), f"{_SCORES.get(name, name)}, {whose}"])
    if told.deviance_explained is not None:
        found.append([f"{told.deviance_explained:.1%}", "deviance explained in training"])
    if told.n_rows is not None:
        found.append([f"{told.n_rows:,}", "rows"])
    found.append([str(sum(book.size > 0 for book in model.encoder.codebooks)), "columns that vary"])
    found.append([str(order), "highest order of interactions"] if order > 1 else ["no", "interactions"])
    if told.edf is not None:
        used = 1.0 + sum(float(own.sum()) for own in told.edf.values())
        found.append([f"{used:,.0f}", "effective degrees of freedom"])
    if told.dispersion is not None:
        found.append([f"{told.dispersion:.4g}", _dispersion_words(model.family)])
    if told.pearson_dispersion is not None:
        found.append(
            [f"{told.pearson_dispersion:.3g}", "Pearson's statistic by residual degree of freedom; 1 is right"]
        )
    found += [["edited", f"by hand: {edit}"] for edit in told.edits]
    return [{"value": value, "label": label} for value, label in found]


def _validated(told: Summary) -> str:
    """All scores of validation rows, in one line."""
    if told.validated is None:
        return ""
    by_name = told.validated.scores.items()
    scores = ", ".join(f"{_SCORES.get(name, name)} {_score(name, value)}" for name, value in by_name)
    return f"cross-validated on {told.validated.whose(told.n_rows)}, each predicted by fits to other rows: {scores}"


def _score(name: str, value: float) -> str:
    """A score for people: shares of the deviance in percent, as that of training is."""
    return f"{value:.1%}" if name == "deviance explained" else f"{value:.4g}"


def _dispersion_words(family: Family) -> str:
    """What the dispersion of a family says."""
    if isinstance(family, Gaussian):
        return "variance of the noise (dispersion)"
    if getattr(family, "quasi", False):
        return "dispersion: the variance as a multiple of the family's"
    return "dispersion"


def _rounded(text: str) -> str:
    """Parameters that were estimated, with four digits."""
    return re.sub(r"\d+\.\d{5,}(e[-+]?\d+)?", lambda found: f"{float(found[0]):.4g}", text)


def made(
    fitted: Fitted, model: Model, told: Summary, link: str, command: str | None, *, exposed: bool
) -> dict[str, Any]:
    """When, of what, with what."""
    settings = repr(fitted) if not isinstance(fitted, Model) else None
    return {
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "version": version("ahofm"),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "rows": told.n_rows,
        "family": _rounded(repr(model.family)),
        "family_words": family_words(model.family, link, exposed=exposed, classes=model.classes is not None),
        "settings": " ".join(settings.split()) if settings else None,
        "command": command,
        "edits": [str(edit) for edit in told.edits],
        "choices": [{"name": one.name, "value": one.value, "reason": one.reason} for one in told.choices],
        "validated": _validated(told),
        "gains": [str(gain) for gain in told.gains],
        "ended": f"{model.trace.solver}: {model.trace.reason.value}",
        "seconds": {name: float(two_digits(value)) for name, value in model.trace.seconds.items()},
    }


def fit_columns(told: Summary) -> list[list[str]]:
    """A table: every column with its shares, degrees of freedom and test."""
    orders = list(told.edf or {})
    head = ["column", "kind", "share", "main effect", *(f"edf, order {order_name(order)}" for order in orders)]
    rows = [head + (["p, main effect"] if told.p_main is not None else [])]
    for j in np.argsort(-told.shares, kind="stable"):
        row = [told.columns[j], told.kinds[j], f"{told.shares[j]:.1%}", f"{told.main_shares[j]:.1%}"]
        row += [f"{(told.edf or {})[order][j]:.1f}" for order in orders]
        rows.append(row + ([p_text(float(told.p_main[j]))] if told.p_main is not None else []))
    return rows


def fit_orders(told: Summary) -> list[list[str]]:
    """A table: every order that was tried, with its share, factors, and what validation rows said."""
    gains = {gain.order: gain for gain in told.gains}
    rows = [["order", "share", "factors", *(["on validation rows"] if gains else [])]]
    for order, share in told.orders.items():
        rank = "" if order == 1 else str(told.ranks.get(order, 0))
        said = [str(gains[order]) if order in gains else ""] if gains else []
        rows.append([str(order), f"{share:.1%}", rank, *said])
    dropped = [gain for gain in told.gains if gain.order not in (*told.orders, PRODUCT)]
    return rows + [[str(gain.order), "not kept", "", str(gain)] for gain in dropped]


def documentation() -> str | None:
    """Where the documentation is on the web, if the package says so."""
    for line in metadata("ahofm").get_all("Project-URL") or []:
        name, _, address = line.partition(", ")
        if name.lower() == "documentation":
            return str(address)
    return None

"""The history of a fit: one record per iteration, and the reason why it ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from ahofm.orders import PRODUCT


def two_digits(value: float) -> str:
    """A number with two digits, or all those before its point: 0.37, 2.3, 120."""
    return f"{value:.2g}" if abs(value) < 99.5 else f"{value:.0f}"


class Reason(Enum):
    """Why a fit ended."""

    CONVERGED = "converged: the last iterations changed no more than tol allows"
    EARLY_STOPPED = "stopped early: the validation loss has not improved for `patience` epochs"
    ENOUGH = "made all planned sweeps; further ones would change little"
    MAX_ITER = "stopped at max_iter before it converged"
    NO_PROGRESS = "no step improved the objective any further: the limit of rounding"
    DIVERGED = "diverged: the objective is not finite any more"
    CALLBACK = "stopped by a callback"
    INTERRUPTED = "interrupted by the keyboard"
    TIME = "ran out of time_budget before all was done; the model is the best so far"

    @property
    def success(self) -> bool:
        """Whether the fit ended by itself, as it should."""
        return self in (Reason.CONVERGED, Reason.ENOUGH, Reason.EARLY_STOPPED, Reason.NO_PROGRESS)


@dataclass(frozen=True)
class Record:
    """The state after one iteration.

    Attributes
    ----------
    iteration : int
        0 is the start.
    objective : float
        Penalised loss per unit of weight.
    gradient_norm : float
        Of the objective in the solver's coordinates.
    passes : float
        Over the training data since the start; a mini-batch counts by its share of the rows. "variational" counts
        sweeps over the columns, those of all its members, by their share of the rows.
    seconds : float
        Since the start.
    validation : float or None
        Loss per unit of weight on validation rows, for solvers that use them.
    fraction : float or None
        Fraction of the likely work that is done; None where it is not known.
    """

    iteration: int
    objective: float
    gradient_norm: float
    passes: float
    seconds: float
    validation: float | None = None
    fraction: float | None = None


@dataclass(frozen=True)
class Choice:
    """An automatic choice of a fit: its name, its value, and the reason."""

    name: str
    value: str
    reason: str


@dataclass(frozen=True)
class Edit:
    """A change of a fitted model by hand: what was done, to which effect, and how."""

    action: str
    effect: str
    how: str

    def __str__(self) -> str:
        """One line of text."""
        return f"{self.action}: {self.effect}{f', {self.how}' if self.how else ''}"


@dataclass(frozen=True)
class Gain:
    """Relative decrease of the loss on validation rows by an order.

    Attributes
    ----------
    order, over : int
        Which order is compared with which lower one.
    gain : float
        By how much the mean loss on these rows is less with the order, as a fraction of that without it.
    error : float
        Standard error of the gain, as such a fraction too.
    rows : int
        How many rows.
    """

    order: int
    over: int
    gain: float
    error: float
    rows: int

    def __str__(self) -> str:
        """One line of text."""
        name = "with product factors, the model" if self.order == PRODUCT else f"order {self.order}"
        said = f"{name} predicts {self.rows:,} validation rows"
        if self.gain == 0.0:
            return f"{said} exactly as order {self.over} does"
        better, lower = ("better", "lower") if self.gain > 0.0 else ("worse", "higher")
        size, error = two_digits(100.0 * abs(self.gain)), two_digits(100.0 * self.error)
        return f"{said} {better} than order {self.over}: mean loss {size} ± {error} % {lower}"


@dataclass(frozen=True)
class Validated:
    """How well fits predicted validation rows, which they were not fitted to.

    Attributes
    ----------
    rows, of : int
        Validation rows, and how many rows there were to choose from. Where they are all, each was predicted by fits to
        the other folds.
    scores : dict of name to float
        "R2" and "RMSE" of means, after "deviance explained" where losses are not squares; or "accuracy", "log-loss",
        "ECE" (expected calibration error: mean distance of probabilities from observed frequencies, over tenths of the
        rows) and, for two classes, "AUROC": of the candidate fits, with their stacking weights. The weights were chosen
        on the same rows; the fits had fewer rows than the model.
    """

    rows: int
    of: int
    scores: Mapping[str, float]

    def __str__(self) -> str:
        """One line of text."""
        return self.told(self.of)

    def told(self, n_rows: int | None) -> str:
        """One line of text, for a model of ``n_rows``; None where these are not known."""
        said = ", ".join(f"{name} {value:.4g}" for name, value in self.scores.items())
        return f"cross-validated on {self.whose(n_rows)}, each predicted by fits to other rows: {said}"

    def whose(self, n_rows: int | None) -> str:
        """The validation rows in words, beside the number of all where they are not.

        Fits to samples, and copies of rows, have a number of their own to choose from: it is left out.
        """
        if self.rows == self.of:
            return "all rows"
        return f"{self.rows:,}{f' of {n_rows:,}' if n_rows == self.of else ''} rows"


@dataclass(frozen=True)
class Trace:
    """A fit's history.

    Attributes
    ----------
    solver : str
    reason : Reason
    records : tuple of Record
    seconds : dict of phase to seconds
        "learn" codebooks, "setup" coordinates and smoothing parameters, "rows" passes over data, "solve" everything
        else; "search" and "fit" where smoothing parameters are estimated.
    damped : int
        Number of steps without sufficient decrease, which were damped.
    """

    solver: str
    reason: Reason
    records: tuple[Record, ...]
    seconds: Mapping[str, float] = field(default_factory=dict)
    damped: int = 0

    def __getstate__(self) -> dict[str, Any]:
        """The reason as its text: members of an enumeration cannot be made anew by readers such as skops."""
        return {**vars(self), "reason": self.reason.value}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """The reason as a text, or as earlier pickles have it."""
        vars(self).update({**state, "reason": Reason(state["reason"])})

    @property
    def n_iter(self) -> int:
        """Iterations made."""
        return self.records[-1].iteration if self.records else 0

    @property
    def passes(self) -> float:
        """Passes over the training data."""
        return self.records[-1].passes if self.records else 0.0

    def to_dict(self) -> dict[str, list[Any]]:
        """Columns of a table with a row per iteration."""
        names = ("iteration", "objective", "gradient_norm", "passes", "seconds", "validation")
        return {name: [getattr(record, name) for record in self.records] for name in names}

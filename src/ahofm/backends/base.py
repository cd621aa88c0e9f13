"""What a backend computes on rows: the only protocols between solvers and rows, every argument with its shape.

    Backend.load(source, executor) -> Rows            coded rows: sums over them for given tables
    Rows.working(response, design) -> WorkingRows     rows of a variational fit, with all that it changes in them
    Backend.curves(linear predictors) -> Prediction   linear predictors at true values

Solvers see sums per code and a few scalars. What belongs to a row (eta, slope, curvature, variance) stays inside.

n rows, p columns, K linear predictors. Column j has B_j codes, of which the last is neutral; codes = sum_j B_j. F
functions: the main effect, then the factors, order after order. m coefficients of smooth main effects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

from numpy.typing import NDArray

from ahofm.backends.design import DesignRows, MainSums
from ahofm.backends.response import Response, Trial
from ahofm.columns.basis import Floats
from ahofm.families import Family
from ahofm.kernels import BlockSums, ColumnMoments, ColumnSums, Curves, Sums, Tables
from ahofm.rows import Executor, Source

Loss: TypeAlias = str | Callable[[Floats, Floats], tuple[Floats, Floats, Floats]]
"""The name of a built-in loss (``ahofm.kernels.LOSSES``), or a function of targets (n,) and linear predictors (n, K) in
NumPy: values (n,), slopes (n, K), curvatures (n, K)."""

Precision: TypeAlias = Literal["float32", "float64"]
"""Of a row's numbers, at least; sums are float64 in either case."""


def loss_of(family: Family) -> Loss:
    """A family's loss: by its name where it is built in."""
    return family.loss if family.builtin is None else family.builtin


class FailedError(ArithmeticError):
    """A block that no jitter makes solvable, or sums that are not finite."""


class StoppedError(Exception):
    """A sweep that ended between two columns: the time is over, or the fit was interrupted."""


def never() -> bool:
    """False: nothing stops a sweep."""
    return False


@runtime_checkable
class Backend(Protocol):
    """Computes on rows."""

    def load(self, source: Source, executor: Executor, precision: Precision = "float64") -> Rows:
        """Rows to compute on, in memory, streamed or on a cluster.

        Parameters
        ----------
        source : Source
            Chunks of codes; with targets (n,), weights (n,) and offsets (n, K) where losses are computed.
        executor : Executor
            Visits the chunks.
        precision : "float32" or "float64"
            That rows need at least.
        """
        ...

    def curves(self, linear_predictors: Sequence[Curves]) -> Prediction:
        """Linear predictors at true values."""
        ...


@runtime_checkable
class SweepingBackend(Backend, Protocol):
    """A backend that may do whole sweeps of a variational fit by itself."""

    def sweeps(self, response: Response, priors: Sequence[str | None]) -> bool:
        """Whether its working rows have a ``sweeper`` for such a response and such priors.

        Parameters
        ----------
        response : Response
        priors : sequence of str or None
            Kinds of all priors, as ``ahofm.priors.arrays`` names them; None for one that has no name.
        """
        ...


class Prediction(Protocol):
    """Linear predictors at true values. Stateless: any number of threads may share one."""

    @property
    def linear_predictors(self) -> tuple[Curves, ...]:
        """All of the same columns."""
        ...

    def eta(self, columns: Sequence[NDArray[Any]], n_threads: int | None = None) -> Floats:
        """Linear predictors of each row, (n, K).

        Parameters
        ----------
        columns : sequence of p arrays of shape (n,)
            As ``ahofm.columns.Codebook.places`` gives them: numbers with NaN where missing, codes of levels.
        n_threads : int, optional
            All cores by default.
        """
        ...

    def contributions(self, columns: Sequence[NDArray[Any]], n_threads: int | None = None) -> Floats:
        """Contributions of the columns (n, K, p), see ``ahofm.kernels.NativeCurves.contributions``.

        Parameters
        ----------
        columns : sequence of p arrays of shape (n,)
        n_threads : int, optional
        """
        ...


class Rows(Protocol):
    """Coded rows. ``tables`` are always K linear predictors at the codes: main (codes,), factors (codes, rank)."""

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        ...

    def value(self, tables: Sequence[Tables], loss: Loss) -> float:
        """Weighted sum of the losses; one pass."""
        ...

    def gradient(self, tables: Sequence[Tables], loss: Loss) -> Sums:
        """Weighted sum of the losses, and its derivatives by every entry of the K tables; one pass."""
        ...

    def column_gram(self, tables: Sequence[Tables], loss: Loss, k: int, column: int) -> ColumnSums:
        """Slopes (B, F) and curvatures (B, F, F) of the loss by a column's functions in linear predictor k."""
        ...

    def eta(self, tables: Sequence[Tables]) -> Floats:
        """Linear predictors with the offset: (n, K)."""
        ...

    def leave_one_out(self, tables: Tables, column: int) -> Floats:
        """Derivatives of one linear predictor by a column's functions at each row: (n, F)."""
        ...

    def pull_back(self, tables: Sequence[Tables], g: Floats) -> tuple[Tables, ...]:
        """Derivatives of ``sum(g * eta)`` by every entry of the K tables, g of shape (n, K)."""
        ...

    def batches(self, size: int, rng: Any) -> Iterator[tuple[Rows, float]]:
        """All rows once in random order, about ``size`` at a time, each with its sum of weights.

        Chunks come in random order and rows are shuffled within a chunk; ``rng`` is a NumPy generator.
        """
        ...

    def working(self, response: Response, design: DesignRows) -> WorkingRows:
        """Rows of a variational fit.

        Parameters
        ----------
        response : Response
            Targets (n,), weights (n,) and offsets (n, K), in the order of the rows, and their family.
        design : DesignRows
            Coordinates (n, m) of smooth main effects.
        """
        ...


class WorkingRows(Protocol):
    """Rows of a variational fit, with the vectors per row that the fit changes.

    Linear predictor k of a row is the sum of two parts. Its *state* is made of columns that were added, each by the
    moments of its functions at the codes; *main effects* are an intercept and a smooth design times coefficients.
    Losses and their derivatives are those at linear predictors that were accepted; ``trial`` looks at others.

    ``others`` is an array of shape (K,): the mean variance that smooth main effects and tensor products, which are in
    no state, add to each linear predictor. Only losses that depend on variances use it.
    """

    @property
    def response(self) -> Response:
        """Its family changes when it has parameters of its own."""
        ...

    @property
    def use_majorant(self) -> bool:
        """Whether the family's majorant replaces curvatures, from some step on."""
        ...

    def copy(self) -> WorkingRows:
        """A copy without states."""
        ...

    def set_main_effects(self, k: int, intercept: float, coef: Floats) -> None:
        """Other main effects of linear predictor k: coefficients of shape (m,)."""
        ...

    def set_columns(
        self, k: int, ranks: Mapping[int, int], moments: Sequence[ColumnMoments], loadings: Floats | None = None
    ) -> None:
        """A state from scratch, of factors of these orders and ranks, with these columns.

        ``loadings`` are those of product factors, (rank,): ones by default.
        """
        ...

    def swap(self, k: int, add: ColumnMoments | None, remove: ColumnMoments | None) -> BlockSums | None:
        """Add a column to the state, then remove one and return its sums per code, gram (B, F, F) and rhs (B, F).

        Moments have means (B, F) and variances (B, F).
        """
        ...

    def linearise(self, k: int, *, majorant: bool = False) -> bool:
        """Working weights and responses at the accepted linear predictors, which ``swap`` and ``main_sums`` use.

        With the curvatures of the family's majorant on request; False, and nothing done, where it has none.
        """
        ...

    def main_sums(self, k: int) -> MainSums:
        """Sums for the main effects given the state, at the working weights and responses of the accepted ones."""
        ...

    def evaluate(self, others: Floats | None = None) -> None:
        """Accept the linear predictors of states and main effects.

        Without ``others``, losses are those at the means, with the family's own curvatures.
        """
        ...

    def trial(self, k: int) -> Trial:
        """Losses if linear predictor k were accepted with its present state and main effects."""
        ...

    def accept(self, others: Floats) -> None:
        """Accept the linear predictors of the last trial."""
        ...

    def reject(self) -> None:
        """Discard the trial. The caller restores states and main effects."""
        ...

    def loss(self) -> float:
        """Weighted mean loss."""
        ...

    def dispersion(self) -> float:
        """Weighted mean of Pearson's squares and of the variances of linear predictors."""
        ...

    def information(self, k: int) -> float:
        """Sum of the working weights of linear predictor k."""
        ...

    def gradient(self, k: int) -> Floats:
        """Negative gradient of the loss by linear predictor k, over the sum of working weights: (n,).

        For the initial factors, once an order: the only array of rows that a solver gets.
        """
        ...

    def eta_std(self, k: int) -> float:
        """Weighted standard deviation of linear predictor k over the rows."""
        ...

    def loss_along(self, k: int, order: int, factors: Sequence[Floats]) -> Callable[[float], float]:
        """Mean loss as a function of a number, by which terms of new factors are multiplied and then added to k.

        Parameters
        ----------
        k, order : int
        factors : sequence of p arrays of shape (B, rank)
        """
        ...

    def keep_eta(self) -> None:
        """Remember the linear predictors."""
        ...

    def mean_squared_change(self) -> float:
        """Mean square of their change since ``keep_eta``, weighted by curvatures."""
        ...

    def learn_parameters(self, others: Floats) -> None:
        """The family's own parameters, from the accepted linear predictors."""
        ...


@dataclass(frozen=True)
class SweepArrays:
    """Priors and posteriors of a fit as plain arrays; a sweeper changes those of ``linear_predictors`` in place.

    Attributes
    ----------
    columns : sequence of p dicts
        ``n_codes`` (with the neutral code), ``mass`` (B - 1,), ``relative_bounds`` (B - 1,), ``bounded``, and the
        priors ``main`` and ``factors`` as ``ahofm.priors.arrays.prior_arrays`` has them.
    ranks : dict of order to rank
    additive : dict
        ``design`` (n, m), ``group`` (m,), ``relative_penalty`` (m,), ``counts`` (groups,), ``largest_lam``.
    linear_predictors : sequence of K dicts
        ``columns``: p dicts as ``ahofm.priors.arrays.posterior_arrays`` has them; ``coef`` (m,), ``lam`` (groups,),
        ``intercept``, ``trace``; of tensor products ``margin_lam`` and ``null_lam`` (p, p) or None, ``edf``, ``age``;
        of product factors ``loadings`` (rank,).
    """

    columns: Sequence[Mapping[str, Any]]
    ranks: Mapping[int, int]
    additive: Mapping[str, Any]
    linear_predictors: Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class SweptPredictor:
    """Results of a sweeper for one linear predictor, besides the arrays that it changes in place.

    Attributes
    ----------
    intercept, trace : float
        Of main effects; ``trace`` is that of their variance over all rows.
    edf, age : float and int
        Of tensor products.
    solved : sequence of p int
        How many functions of each column have been solved, the main effect first.
    """

    intercept: float
    trace: float
    edf: float
    age: int
    solved: Sequence[int]


class Sweeper(Protocol):
    """Makes whole sweeps over all columns, on working rows whose row vectors it shares."""

    def build(self, tempering: float) -> None:
        """States of all rows from scratch, with a tempering of the variances."""
        ...

    def sweep(
        self, dispersion: float, *, learn: bool, learn_mains: bool, backwards: bool, floor: float
    ) -> tuple[float, int]:
        """All columns once, main effects jointly, smoothing parameters of pairs.

        Parameters
        ----------
        dispersion : float
            The dispersion.
        learn, learn_mains : bool
            Whether smoothing parameters of columns and pairs, and of main effects, are updated.
        backwards : bool
            Whether columns come from the last to the first.
        floor : float
            The dispersion falls no lower.

        Returns
        -------
        dispersion : float
            The dispersion after it, where losses are quadratic.
        damped : int
            Steps without sufficient decrease.
        """
        ...

    def learn_parameters(self) -> None:
        """The family's own parameters, from the accepted linear predictors."""
        ...

    def largest(self) -> float:
        """The largest value of any function."""
        ...

    def found(self, k: int) -> SweptPredictor:
        """Linear predictor k as it is."""
        ...


@runtime_checkable
class SweepingRows(Protocol):
    """Working rows of a :class:`SweepingBackend`."""

    def sweeper(self, arrays: SweepArrays, stop: Callable[[], bool] = never) -> Sweeper:
        """Sweeps from these posteriors; the states of the rows are the sweeper's from now on.

        ``stop`` is called between columns; where it returns True the sweep ends with a ``StoppedError``.
        """
        ...

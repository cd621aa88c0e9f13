"""The regressor."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import RegressorMixin
from sklearn.utils.validation import _check_y, check_consistent_length

from ahofm.columns.basis import Floats
from ahofm.columns.table import Table
from ahofm.estimators.base import AHOFM
from ahofm.estimators.dask_input import dataset_of
from ahofm.estimators.labels import rows_without_target
from ahofm.estimators.means import MeanPredictions
from ahofm.estimators.partial_fit import fit_piece
from ahofm.estimators.survival import SurvivalPredictions, target_of
from ahofm.families import Family, Gaussian, Ordinal, find_family
from ahofm.training.splits import splits_of


class AHOFMRegressor(SurvivalPredictions, MeanPredictions, RegressorMixin, AHOFM):  # type: ignore[misc]  # scikit-learn has no types
    """Regression with all interactions up to an order.

    By default nothing needs tuning: the smoothing parameters of all penalties are estimated, terms without support in
    the data are shrunk to zero, and how rough interactions may be is decided by validation rows.

    Parameters
    ----------
    order : int, "auto" or None, default None
        Highest order of interactions: 1 is a generalised additive model, 2 adds all pairs, 3 all triples, and so on.
        More than there are columns is reduced with a warning. None is 3 where smoothing parameters are learned, beside
        products over all columns where these predict better, and 2 where they are given. "auto" tries up to 4 and keeps
        what predicts validation rows better.
    rank : int, dict of order to int, or "auto", default "auto"
        Number of factors for each order from 2 on. An order that a dict leaves out has none. "auto" is 4 for fewer
        than 2,000 rows, 8 for fewer than 12,000 and 12 for more; pairs get up to three times as many while they leave
        something to explain, and unneeded factors are dropped after the fit. Where smoothing parameters are given it is
        5.
    columns : dict of column name or position to kind, one kind for all, or None
        What columns become, e.g. ``{"hour": Cyclic(period=24)}``; the others are chosen by their data. With
        ``Linear()`` for all the model is a factorization machine.
    family : str or Family, default "auto"
        "auto" is Gaussian. Other names are in ``ahofm.families.FAMILIES``; an object of your own will do too.
    smoothing : "auto" or "df", default "auto"
        How the smoothing parameters of the penalties are chosen. "auto" learns them, by column and order, from the
        data; "df" takes them from degrees of freedom, the same for all columns of an order unless ``df`` says
        otherwise. So does "auto" when ``df`` is given.
    df : number or dict, optional
        Degrees of freedom of a column's functions: one number; or a dict with entries per order, ``{1: 15, 2: 6}``,
        per column, ``{"age": 4}``, or both, ``{2: {"age": 3}}``. What is not given is 10 for main effects and 8 for
        factors, or nearly as many as a column has functions when it has no more than that.
    df_kind : "residual" or "hat", default "residual"
        ``tr(2H - H'H)`` or ``tr(H)``, H the hat matrix of a penalised regression on the column alone.
    ridge : float, default 0.01
        Penalty, per unit of weight, of what smoothness leaves free in a factor: its linear part. 0 is the paper's
        penalty, whose objective may fall for ever as one factor grows and its partners shrink.
    solver : "auto", "variational", "subsample", "lbfgs", "bcd", "adam" or a solver, default "auto"
        "variational" estimates smoothing parameters: variational Bayes by coordinate ascent over columns. "subsample"
        does so on a sample of 50,000 rows, then refines by quasi-Newton passes over all rows. The others minimise a
        penalised objective: full-batch quasi-Newton, block coordinate descent, mini-batches with early stopping. "auto"
        is "variational" where smoothing parameters are estimated, beyond 200,000 rows "subsample", and where they are
        given "lbfgs".
    factor_prior : "auto", "spline", "random_walk", "spline_iid" or list of Candidate, default "auto"
        For "variational" and columns that are not in ``columns``: the prior of their factors. "spline" is a penalised
        spline, "random_walk" a value per code with penalised first differences, "spline_iid" a spline plus an
        independent effect per code. "auto" fits all three as candidates to a part of the rows and stacks them by their
        losses on validation rows; below 50 rows it is "spline". From 2,000 rows on, for Gaussian targets whose variance
        differs between rows, splines and random walks with rows weighted by one over their standard deviation are
        candidates too; so are products over all columns, which have interactions of every order, for squared losses, 3
        to 30 columns and fewer than 20,000 rows where neither ``order`` nor ``rank`` is given. Main effects are smooth
        functions beside random walks; for two classes, also at ``order=1``, candidates differ in them: smooth in the
        values, smooth in the ranks, random walks alone. A list of ``ahofm.fit.Candidate`` is stacked instead.
    interaction_cst : {"no_interactions", "pairwise"} or list of groups of columns, default None
        Which columns may interact, as in scikit-learn: groups of names or positions; columns in no group form a further
        one. "no_interactions" is ``order=1``, "pairwise" allows all pairs. What is not allowed is exactly zero.
    exclude : list of columns and of sets of columns, default None
        Interactions that are not allowed: ``("age", "sex")`` bars every interaction that has both, ``"age"`` leaves
        that column its main effect alone.
    monotonic_cst : dict of column to 1, -1, 0, "convex" or "concave", or sequence, default None
        Predictions never fall (1) or rise (-1) as that column rises, whatever the values of the others; guaranteed, for
        families of one linear predictor. "convex" and "concave" are for main effects of columns without interactions,
        over the range of the training rows. A sequence has one entry per column.
    tempering : float or "auto", default "auto"
        For "variational" and "subsample": fraction of the variance of a column's partners that counts when the column
        is fitted, as in a power posterior. 1 prunes most, 0 takes partners as known and overfits noise. "auto" rises
        with the noise below 2,000 rows; beyond, it is 0.7 for "spline" ("subsample": at most 0.5), 0.55 for
        "spline_iid" and 0.7 for "random_walk", from 12,000 rows on 0.7 and 1 (weighted random walks: 0.5). Rare
        events: 1.
    n_members : int or "auto", default "auto"
        For "variational": number of ensemble members, fits of all rows from different starts and of different
        interactions, whose weighted mean is the model. It is one model, of the summed rank. "auto" is by ``effort``: 3
        from 50 to 20,000 rows, else 1.
    effort : "fast", "balanced" or "best", default "balanced"
        Where smoothing parameters are estimated: how much is tried. "fast" is one fit of one candidate, without a
        search. "balanced" cross-validates the candidates of ``factor_prior`` and fits three ensemble members. "best"
        has five folds instead of three, further candidates with twice the rank, and six members, three beyond 20,000
        rows. What ``factor_prior``, ``rank`` and ``n_members`` say counts whatever the effort; ``order="auto"`` is
        searched for in any case.
    time_budget : float or None, default None
        Seconds after which the best model so far is the result, with an ``ahofm.fit.TimeBudgetWarning`` unless all was
        done by then. What is cheap comes first: main effects, a fit of one candidate, then cross-validation and the
        other ensemble members as far as there is time. It is checked between the columns of a sweep; columns are
        read, and there are main effects, however short it is. Results depend on how fast the machine is.
    prune : bool, default False
        Set what ``negligible_`` names to exactly zero.
    center : bool, default True
        Take the constant out of every factor: interactions then hold no lower-order part.
    max_codes : int or None, default None
        Columns with more distinct numbers are binned for the fit (never for predictions). None is 254; for
        "variational" it is 2,048 for columns whose numbers repeat.
    cv : int, splitter, iterable of splits or None, default None
        Validation rows of every choice that the fit makes: how interactions are weighted, which orders are kept, when
        "adam" stops (by the last split). None is random folds, or folds of ``groups`` where ``fit`` has them; so is a
        number of folds. A splitter of scikit-learn (``split(X, y, groups)``), or its splits as pairs of row numbers,
        are taken as they are; of more than 20,000 rows, random parts of theirs.
    validation_fraction : float or None, default 0.1
        Fraction of the rows that "adam" takes as validation rows, to decide when to stop; 0 or None: none, the training
        objective decides.
    patience : int, default 50
        Epochs without improvement after which "adam" stops.
    max_iter : int or None, default None
        Iterations of "lbfgs", sweeps of "bcd", epochs of "adam": 1,000 by default. Sweeps of "variational" over the
        columns at the highest order: 60, or 30 from 2,000 rows on; of main effects alone 8 or 16 that estimate
        smoothing parameters, and as many as they need to converge. Passes of "subsample" over all rows at the highest
        order: 44.
    tol : float or None, default None
        "lbfgs" and "bcd" stop when ten iterations gain less than this fraction of what was gained since the start, by
        default 1e-4. "variational" goes to the next order when three sweeps change the dispersion by less than this
        fraction, by default 2e-3 (5e-4 from 2,000 rows on).
    n_jobs : int or None, default None
        Threads; None and -1 use all cores.
    device : "auto", "cpu" or a backend, default "auto"
        Where a fit computes. "auto" is the best there is, which today is always the CPU; "cuda" is not available yet.
        An object of your own with the methods of ``ahofm.backends.Backend`` will do too.
    random_state : int, RandomState or None
        Seed of the factors' start, and of the choice of validation rows.
    verbose : int, default 0
        1 shows a progress bar.
    callbacks : sequence of functions, optional
        Called with a ``ahofm.model.Record`` after every iteration; a fit stops when one returns True.
    checkpoint : path or None, default None
        A file that keeps the fit on its way, written every few seconds. A fit of the same data and settings goes on
        from it; it is removed when the fit has ended, and stays when Ctrl-C or ``time_budget`` ended it.
    warm_start : bool, default False
        Whether another ``fit`` uses the codebooks of the last one and, with a solver that minimises a penalised
        objective and the same order and rank, starts from its coefficients.

    Attributes
    ----------
    model_ : Model
        The frozen model.
    training_ : TrainingRows or None
        The training rows, for what is asked after the fit; None after unpickling and loading.
    band_ : Band
        Covariance of the coefficients; computed from ``training_`` when first asked for.
    edf_ : dict of order to array of shape (columns,)
        Effective degrees of freedom, of ``band_``.
    feature_importances_ : array of shape (columns,)
        Share of the variance of the linear predictor that each column carries; in sum 1, or 0 for a constant model.
    negligible_ : Negligible
        Columns and orders that carry less than half a percent of the variance.
    trace_ : Trace
        One record per iteration, and the reason for stopping.
    n_iter_, n_features_in_ : int
        Iterations, and columns.
    feature_names_in_ : array of shape (columns,)
        When the columns of X have names.

    Notes
    -----
    After a fit nothing but another fit changes an estimator: intervals, figures and explanations may be asked for from
    several threads at once. What they share, ``band_``, is computed once.

    Examples
    --------
    >>> import numpy as np
    >>> from ahofm import AHOFMRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 3))
    >>> y = np.sin(X[:, 0]) * X[:, 1] + 0.1 * rng.normal(size=300)
    >>> model = AHOFMRegressor(random_state=0).fit(X, y)
    >>> round(model.score(X, y), 2)
    0.98
    >>> model.negligible_.columns
    ('x2',)
    """

    def fit(
        self,
        X: Any,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        offset: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> AHOFMRegressor:
        """Fit the model.

        Ctrl-C raises KeyboardInterrupt as ever, so that callers such as a grid search end; the best model so far is
        kept in ``model_`` before that, if there is one, and the state of the fit in ``checkpoint``.

        Parameters
        ----------
        X : array of shape (n, columns), a pandas, polars or Arrow table, a Dask collection or a CodeStore
            Numbers or text; NaN and None are missing values. With a Dask collection the others are Dask collections of
            the same partitions; an :class:`ahofm.scale.CodeStore` has targets, weights and offsets with it.
        y : array of shape (n,), or of shape (n, 2) with time and event for families of censored times
            Targets. A structured array of event and time, as in scikit-survival, will do for these too.
        sample_weight : array of shape (n,), optional
            Whole numbers count rows: 2 is a row that is there twice, 0 one that is absent. Others are relative, without
            a unit, where the family estimates its dispersion; for counts and classes they are numbers of trials.
        offset : array of shape (n,) or (n, linear predictors), optional
            Added to the linear predictor, e.g. the log of an exposure.
        groups : array of shape (n,), optional
            Rows that go together, e.g. those of a patient: in every choice of the fit, validation rows are of other
            groups than the rows that are fitted, and groups count as one in standard errors. See ``cv``.

        Returns
        -------
        AHOFMRegressor
            The estimator itself. After this, only another fit changes it.
        """
        _, family = self._target_and_family(None)
        if (rows := dataset_of(self, X, y, sample_weight, offset, groups)) is not None:
            if rows.target.text:
                raise ValueError("the target is text; use AHOFMClassifier, or numbers")
            self._fit(rows, None, None, None, family)
            return self
        table, target = self._checked(X, target_of(family, y), reset=True)
        self._fit(table, target, sample_weight, offset, family, groups=groups, cv=splits_of(self.cv, X, y, groups))
        return self

    def partial_fit(
        self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None, offset: ArrayLike | None = None
    ) -> AHOFMRegressor:
        """Fit all rows of this and earlier calls.

        The first call learns the codebooks, and is a fit like any other. Later ones code their rows by them and add
        them to those that are there, at a byte or two per cell, so that the model is that of all rows, in whatever
        pieces they came. Solvers that minimise a penalised objective start from the last coefficients. The rows of a
        call that Ctrl-C ends after a model was found are among those that are there.

        Parameters
        ----------
        X, y, sample_weight, offset
            As for :meth:`fit`; tables in memory.

        Returns
        -------
        AHOFMRegressor
            The estimator itself.
        """
        _, family = self._target_and_family(None)
        table, target = self._checked(X, target_of(family, y), reset=not hasattr(self, "model_"))
        fit_piece(self, table, target, sample_weight, offset, family)
        return self

    def _checked(self, X: Any, y: Any, *, reset: bool) -> tuple[Table, Floats]:
        table = self._read(X, reset=reset)
        try:
            target = np.asarray(_check_y(y, multi_output=False, y_numeric=True, estimator=self), dtype=np.float64)
        except ValueError as error:
            if "contains NaN" in str(error):
                raise ValueError(f"{error}{rows_without_target(y)}") from error
            if "string to float" not in str(error):
                raise
            ordered = isinstance(self.family, Ordinal) or self.family == "ordinal"
            remedy = "number its levels in their order: 0, 1, 2, ..." if ordered else "AHOFMClassifier fits classes"
            raise ValueError(f"y holds text ({error}); {remedy}") from error
        check_consistent_length(table.columns[0], target)
        return table, target

    def _target_and_family(self, y: Any) -> tuple[Floats | None, Family]:
        family = Gaussian() if isinstance(self.family, str) and self.family == "auto" else find_family(self.family)
        return None if y is None else np.asarray(target_of(family, y), dtype=np.float64), family

    def _target(self, y: Any) -> Floats:
        """Targets as numbers; signed times where they may be censored."""
        return np.asarray(target_of(self.model_.family, y), dtype=np.float64)

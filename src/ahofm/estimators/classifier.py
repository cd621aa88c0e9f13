"""The classifier."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin

from ahofm.backends import Device
from ahofm.columns.basis import Floats
from ahofm.estimators.base import AHOFM, Columns, InteractionCst, MonotonicCst, Rank
from ahofm.estimators.class_weights import weights_by_class
from ahofm.estimators.classes import ClassPredictions
from ahofm.estimators.dask_input import dataset_of
from ahofm.estimators.labels import classes_of, family_of_classes, labels_of, numbers_of, warn_of_rare
from ahofm.estimators.partial_fit import fit_piece
from ahofm.families import Family
from ahofm.model import Record, check_weight
from ahofm.training.splits import splits_of

if TYPE_CHECKING:
    from ahofm.fit import Candidate, Solver


class AHOFMClassifier(ClassPredictions, ClassifierMixin, AHOFM):  # type: ignore[misc]  # scikit-learn has no types
    """Classification with all spline interactions up to an order.

    Parameters
    ----------
    order : int, "auto" or None, default None
        Highest order of interactions: 1 is a generalised additive model, 2 adds all pairs, 3 all triples, and so on.
        More than there are columns is reduced with a warning. None is 3 where smoothing parameters are learned and 2
        where they are given. "auto" tries up to 4 and keeps what predicts validation rows better.
    rank : int, dict of order to int, or "auto", default "auto"
        Number of factors for each order from 2 on. An order that a dict leaves out has none. "auto" is 4 for fewer
        than 2,000 rows, 8 for fewer than 12,000 and 12 for more; pairs get up to three times as many while they leave
        something to explain, and unneeded factors are dropped after the fit. Where smoothing parameters are given it is
        5.
    columns : dict of column name or position to kind, one kind for all, or None
        What columns become, e.g. ``{"hour": Cyclic(period=24)}``; the others are chosen by their data. With
        ``Linear()`` for all the model is a factorization machine.
    family : str or Family, default "auto"
        "auto" is Bernoulli for two classes and Multinomial, with a linear predictor per class, for more.
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
    solver : "auto", "shared", "variational", "subsample", "lbfgs", "bcd", "adam" or a solver, default "auto"
        "variational" estimates smoothing parameters: variational Bayes by coordinate ascent over columns. "subsample"
        does so on a sample of 50,000 rows, then refines by quasi-Newton passes over all rows. The others minimise a
        penalised objective: full-batch quasi-Newton, block coordinate descent, mini-batches with early stopping.
        "shared" is for more than two classes: they share curves and differ in loadings; validation rows choose between
        learned smoothing parameters and early stopping, and between curves of values and of ranks. "auto" is "shared"
        for more than two classes and "variational" for two where smoothing parameters are estimated, beyond 200,000
        rows "subsample", and where they are given "lbfgs".
    factor_prior : "auto", "spline", "random_walk", "spline_iid" or list of Candidate, default "auto"
        For "variational" and columns that are not in ``columns``: the prior of their factors. "spline" is a penalised
        spline, "random_walk" a value per code with penalised first differences, "spline_iid" a spline plus an
        independent effect per code. "auto" fits all three as candidates to a part of the rows and stacks them by their
        losses on validation rows; below 50 rows it is "spline". From 2,000 rows on, for Gaussian targets whose variance
        differs between rows, splines and random walks with rows weighted by one over their standard deviation are
        candidates too. Main effects are smooth functions beside random walks; for two classes, also at ``order=1``,
        candidates differ in them: smooth in the values, smooth in the ranks, random walks alone. A list of
        ``ahofm.fit.Candidate`` is stacked instead.
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
        Validation rows of every choice that the fit makes, as for ``AHOFMRegressor``.
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
    class_weight : None, "balanced" or dict of label to number, default None
        Factors of the weights of rows, by class. "balanced" gives all classes the same sum of weights, whatever their
        numbers of rows. Labels that a dict leaves out have 1. Predicted probabilities are those of the weighted rows.

    Attributes
    ----------
    classes_ : array of shape (classes,)
        Labels, sorted.
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
    >>> from ahofm import AHOFMClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 3))
    >>> y = np.where(X[:, 0] * X[:, 1] + 0.5 * rng.normal(size=300) > 0, "same", "other")
    >>> model = AHOFMClassifier(order=2, random_state=0).fit(X, y)
    >>> model.predict([[1.0, 1.0, 0.0], [1.0, -1.0, 0.0]])
    array(['same', 'other'], dtype='<U5')
    """

    def __init__(
        self,
        order: int | Literal["auto"] | None = None,
        rank: Rank = "auto",
        columns: Columns = None,
        family: str | Family = "auto",
        smoothing: Literal["auto", "df"] = "auto",
        df: float | Mapping[Any, Any] | None = None,
        df_kind: Literal["residual", "hat"] = "residual",
        ridge: float = 0.01,
        solver: str | Solver[Any] = "auto",
        factor_prior: str | Sequence[Candidate] = "auto",
        interaction_cst: InteractionCst = None,
        exclude: Sequence[Any] | None = None,
        monotonic_cst: MonotonicCst = None,
        tempering: float | Literal["auto"] = "auto",
        n_members: int | Literal["auto"] = "auto",
        effort: Literal["fast", "balanced", "best"] = "balanced",
        time_budget: float | None = None,
        prune: bool = False,
        center: bool = True,
        max_codes: int | None = None,
        cv: Any = None,
        validation_fraction: float | None = 0.1,
        patience: int = 50,
        max_iter: int | None = None,
        tol: float | None = None,
        n_jobs: int | None = None,
        device: Device = "auto",
        random_state: Any = None,
        verbose: int = 0,
        callbacks: Sequence[Callable[[Record], bool | None]] | None = None,
        checkpoint: Any = None,
        warm_start: bool = False,
        class_weight: Any = None,
    ) -> None:
        super().__init__(
            order=order,
            rank=rank,
            columns=columns,
            family=family,
            smoothing=smoothing,
            df=df,
            df_kind=df_kind,
            ridge=ridge,
            solver=solver,
            factor_prior=factor_prior,
            interaction_cst=interaction_cst,
            exclude=exclude,
            monotonic_cst=monotonic_cst,
            tempering=tempering,
            n_members=n_members,
            effort=effort,
            time_budget=time_budget,
            prune=prune,
            center=center,
            max_codes=max_codes,
            cv=cv,
            validation_fraction=validation_fraction,
            patience=patience,
            max_iter=max_iter,
            tol=tol,
            n_jobs=n_jobs,
            device=device,
            random_state=random_state,
            verbose=verbose,
            callbacks=callbacks,
            checkpoint=checkpoint,
            warm_start=warm_start,
        )
        self.class_weight = class_weight

    def fit(
        self,
        X: Any,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        offset: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> AHOFMClassifier:
        """Fit the model.

        Ctrl-C raises KeyboardInterrupt as ever; the best model so far is kept before that, as by a regressor.

        Parameters
        ----------
        X : array of shape (n, columns), a pandas, polars or Arrow table, a Dask collection or a CodeStore
            Numbers or text; NaN and None are missing values. With a Dask collection the others are Dask collections of
            the same partitions; an :class:`ahofm.scale.CodeStore` has targets, weights and offsets with it.
        y : array of shape (n,)
            Labels of any kind.
        sample_weight : array of shape (n,), optional
            Numbers of rows: 2 is a row that is there twice, 0 one that is absent. Relative weights should have mean 1.
        offset : array of shape (n,) or (n, linear predictors), optional
            Added to the linear predictor.
        groups : array of shape (n,), optional
            Rows that go together, as for :meth:`AHOFMRegressor.fit`.

        Returns
        -------
        AHOFMClassifier
            The estimator itself. After this, only another fit changes it.
        """
        if (rows := dataset_of(self, X, y, sample_weight, offset, groups)) is not None:
            if rows.target.labels is None:
                raise ValueError("the target has too many different values to be classes; use AHOFMRegressor")
            if self.class_weight is not None:
                raise ValueError("class_weight is for tables in memory: give the weights of rows with the collection")
            classes = classes_of(np.asarray(rows.target.labels), self)
            self._fit(rows, None, None, None, family_of_classes(self.family, len(classes)), classes)
            return self
        table = self._read(X, reset=True)
        labels = labels_of(y, table, self)
        counted = check_weight(sample_weight, len(labels)) > 0
        classes = classes_of(labels[counted], self, labels[~counted])
        numbers = np.zeros(len(labels))
        numbers[counted] = numbers_of(classes, labels[counted])
        weight = weights_by_class(self.class_weight, classes, numbers, sample_weight)
        warn_of_rare(classes, numbers, counted.astype(np.float64))
        family, cv = family_of_classes(self.family, len(classes)), splits_of(self.cv, X, y, groups)
        self._fit(table, numbers, weight, offset, family, classes, groups=groups, cv=cv)
        return self

    def partial_fit(
        self,
        X: Any,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        offset: ArrayLike | None = None,
    ) -> AHOFMClassifier:
        """Fit all rows of this and earlier calls; see :meth:`AHOFMRegressor.partial_fit`.

        Parameters
        ----------
        X, y, sample_weight, offset
            As for :meth:`fit`; tables in memory.
        classes : array of labels, optional
            All that will ever come, at the first call; by default those in ``y``, of which all must be there.

        Returns
        -------
        AHOFMClassifier
            The estimator itself.
        """
        if isinstance(self.class_weight, str):
            raise ValueError(f"class_weight={self.class_weight!r} needs all rows at once; give a dict to partial_fit")
        first = not hasattr(self, "model_")
        table = self._read(X, reset=first)
        labels = labels_of(y, table, self)
        found = classes_of(labels if classes is None else np.asarray(classes), self) if first else self.classes_
        numbers = numbers_of(found, labels)
        weight = weights_by_class(self.class_weight, found, numbers, sample_weight)
        fit_piece(self, table, numbers, weight, offset, family_of_classes(self.family, len(found)), found)
        return self

    def _target(self, y: Any) -> Floats:
        """Numbers of the classes."""
        return numbers_of(self.classes_, np.asarray(y))

    def _weight(self, target: Floats, sample_weight: ArrayLike | None) -> ArrayLike | None:
        """Weights of rows and of their classes."""
        return weights_by_class(self.class_weight, self.classes_, target, sample_weight)

    def _target_and_family(self, y: Any) -> tuple[Floats | None, Family]:
        if y is None:
            raise ValueError("y is needed to forecast the fit of a classifier: it says how many classes there are")
        classes, at = np.unique(np.asarray(y), return_inverse=True)
        return at.astype(np.float64), family_of_classes(self.family, len(classes))

"""``ahofm fit``: from a file to a saved model, a score and a report."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from sklearn.model_selection import GroupShuffleSplit, train_test_split

from ahofm.cli.app import names_in
from ahofm.cli.errors import CommandError
from ahofm.cli.tables import PLAIN, Dialect, mixed, read, refuse_mixed
from ahofm.columns import Categorical, ColumnKind, Cyclic, Linear
from ahofm.columns.basis import Floats
from ahofm.estimators import AHOFMClassifier, AHOFMRegressor
from ahofm.families import FAMILIES
from ahofm.families.survival import FailureTime
from ahofm.scale import CodeStore
from ahofm.scale.files import Files
from ahofm.scale.files import Roles as Special
from ahofm.training.splits import time_splits
from ahofm.training.validation import Split
from ahofm.tuning import FOLDS


@dataclass(frozen=True)
class Roles:
    """What the columns of a file are for; all others predict. ``missing`` are cells that mean nothing is known."""

    target: str
    weight: str | None
    offset: str | None
    exposure: str | None
    drop: Sequence[str]
    categorical: Sequence[str]
    missing: Sequence[str]
    group: str | None = None
    time: str | None = None
    event: str | None = None
    dialect: Dialect = PLAIN

    def among(self, names: Sequence[str]) -> Roles:
        """The same with lists after commas taken apart, given the columns that there are."""
        return replace(self, drop=names_in(self.drop, names), categorical=names_in(self.categorical, names))

    def named(self) -> dict[str, list[str]]:
        """Columns by the option that names them."""
        single = {"target": self.target, "weight": self.weight, "offset": self.offset, "exposure": self.exposure}
        single |= {"group": self.group, "time": self.time, "event": self.event}
        found = {f"--{option}": [name] for option, name in single.items() if name}
        return found | {"--categorical": list(self.categorical), "--drop": list(self.drop)}


@dataclass(frozen=True)
class Job:
    """Rows of a file, split into what the estimator wants; or a store of them, with the labels of its target."""

    X: Any
    y: NDArray[Any]
    weight: Floats | None
    offset: Floats | None
    groups: NDArray[Any] | None = None
    times: NDArray[Any] | None = None

    @property
    def names(self) -> list[str]:
        """Columns that predict."""
        return [column.name for column in self.X.columns] if isinstance(self.X, CodeStore) else self.X.column_names

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.X.n_rows if isinstance(self.X, CodeStore) else len(self.y)

    def fit(self, model: Any) -> None:
        """Fit an estimator to the rows."""
        if isinstance(self.X, CodeStore):
            model.fit(self.X)
        else:
            model.fit(self.X, self.y, sample_weight=self.weight, offset=self.offset, groups=self.groups)

    def take(self, rows: NDArray[np.int64]) -> Job:
        """Some of the rows."""
        parts = (self.weight, self.offset, self.groups, self.times)
        return Job(self.X.take(rows), self.y[rows], *(None if part is None else part[rows] for part in parts))

    @property
    def splits(self) -> list[Split] | None:
        """Splits by time, where there is any: earlier rows to fit, and later validation rows."""
        return None if self.times is None else time_splits(self.times, FOLDS)

    def apart(self, fraction: float, seed: int) -> tuple[Job, Job]:
        """Rows to fit, and a fraction of them for a score: the last ones by time, or those of some groups."""
        rows = np.arange(len(self.y))
        if self.times is not None:
            cut = np.sort(self.times)[min(int((1.0 - fraction) * len(rows)), len(rows) - 1)]
            parts = [rows[self.times < cut], rows[self.times >= cut]]
        elif self.groups is not None:
            made = GroupShuffleSplit(1, test_size=fraction, random_state=seed)
            parts = list(next(iter(made.split(rows, groups=self.groups))))
        else:
            parts = [np.sort(part) for part in train_test_split(rows, test_size=fraction, random_state=seed)]
        return self.take(parts[0]), self.take(parts[1])


def job_of(path: Path, roles: Roles) -> Job:
    """Read a file and find its parts."""
    maybe = [*roles.categorical, *names_in(roles.categorical)]  # what is text has to be known before names are
    table, aim = read(path, roles.missing, maybe, roles.dialect), roles.target
    roles = roles.among(table.column_names)
    named = roles.named()
    for option, names in named.items():
        for name in names:
            if name not in table.column_names:
                raise CommandError(f"{path}: no column '{name}' ({option}); there are {', '.join(table.column_names)}")
    if roles.offset and roles.exposure:
        raise CommandError("--offset and --exposure are two ways to say the same; give one of them")
    refuse_mixed(table, path, (*roles.categorical, *roles.drop))
    y = table[aim]
    if y.null_count:
        row = pa.compute.index(y.is_null(), True).as_py()
        raise CommandError(
            f"{path}: the target '{aim}' is missing in row {row + 1} and {y.null_count - 1} more; drop those rows"
        )
    predict = ("--categorical", "--time")
    special = [name for option, names in named.items() if option not in predict for name in names]
    X = table.drop_columns(list(dict.fromkeys(special)))
    if not X.column_names:
        raise CommandError(f"{path}: no column is left to predict '{aim}' from")
    for name in roles.categorical:
        if name not in X.column_names:
            raise CommandError(f"--categorical {name}: the column does not predict, another option names it as well")
        at = X.column_names.index(name)
        X = X.set_column(at, name, X[name].cast(pa.string()))
    shift = _numbers(table, roles.offset, path)
    if roles.exposure:
        values = _numbers(table, roles.exposure, path)
        if values is None or (values <= 0).any():
            raise CommandError(
                f"{path}: --exposure '{roles.exposure}' has values that are not positive; drop those rows"
            )
        shift = np.log(values)
    groups, times = (_whole(table, name, path) for name in (roles.group, roles.time))
    target = _plain(y)
    if roles.event is not None:
        target = np.column_stack([cast("Floats", _numbers(table, name, path)) for name in (roles.target, roles.event)])
    return Job(X, target, _numbers(table, roles.weight, path), shift, groups, times)


def stored_job(path: Path, roles: Roles, *, folder: Path | None, memory_limit: str, threads: int, quiet: bool) -> Job:
    """Code a file, or a folder of files, to disk."""
    if roles.group or roles.time or roles.event:
        raise CommandError("--group, --time and --event are for tables in memory: leave them out with --out-of-core")
    if roles.exposure:
        raise CommandError("--exposure takes logarithms of tables in memory: with --out-of-core, give them as --offset")
    if roles.dialect != PLAIN:
        raise CommandError("--sep and --decimal are for tables in memory: leave out --out-of-core, or convert the file")
    roles = replace(roles, drop=names_in(roles.drop), categorical=names_in(roles.categorical))
    files, offset = Files.of(path, roles.missing), (roles.offset,) if roles.offset else ()
    files.features(Special(roles.target, roles.weight, offset, tuple(roles.drop)))
    for name, (where, row, cell) in files.odd.items():
        if name not in (*roles.categorical, *roles.drop):
            raise mixed(where, name, row, cell)
    if folder is None:
        folder = Path(tempfile.mkdtemp(prefix="ahofm-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
    store = CodeStore.build(
        folder,
        path,
        target=roles.target,
        weight=roles.weight,
        offset=roles.offset,
        drop=roles.drop,
        columns={name: Categorical() for name in roles.categorical},
        missing=roles.missing,
        memory_limit=memory_limit,
        n_threads=None if threads == -1 else threads,
        verbose=not quiet,
    )
    labels = store.target.labels
    return Job(store, np.array([np.nan]) if labels is None else np.asarray(labels), None, None)


def _plain(column: Any) -> NDArray[Any]:
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return np.asarray(column.to_pylist()) if pa.types.is_string(column.type) else np.asarray(column.to_numpy())


def _whole(table: Any, name: str | None, path: Path) -> NDArray[Any] | None:
    """A column without missing values."""
    if name is None:
        return None
    if table[name].null_count:
        row = pa.compute.index(table[name].is_null(), True).as_py()
        raise CommandError(f"{path}: column '{name}' is missing in row {row + 1}; drop those rows, or fill it in")
    return _plain(table[name])


def _numbers(table: Any, name: str | None, path: Path) -> Floats | None:
    if name is None:
        return None
    try:
        return np.asarray(table[name].cast(pa.float64()).to_numpy(), dtype=np.float64)
    except pa.ArrowInvalid as error:
        raise CommandError(f"{path}: column '{name}' has to hold numbers ({str(error).splitlines()[0]})") from error


def kinds(
    categorical: Sequence[str], cyclic: Sequence[str], linear: Sequence[str], names: Sequence[str]
) -> dict[str | int, ColumnKind]:
    """Kinds of columns that were asked for; ``--cyclic hour=24``."""
    found: dict[str | int, ColumnKind] = {name: Categorical() for name in names_in(categorical, names)}
    for text in names_in(cyclic):
        name, _, period = text.partition("=")
        try:
            found[name] = Cyclic(period=float(period))
        except ValueError as error:
            raise CommandError(f"--cyclic {text}: say it as NAME=PERIOD, e.g. --cyclic hour=24") from error
    found |= {name: Linear() for name in names_in(linear, names)}
    unknown = [name for name in found if name not in names]
    if unknown:
        raise CommandError(f"no column '{unknown[0]}'; there are {', '.join(names)}")
    return found


def estimator(job: Job, family: str, columns: Mapping[str | int, ColumnKind], settings: Mapping[str, Any]) -> Any:
    """A classifier for text, truth values, noughts and ones, and families of classes; a regressor for the rest."""
    if family not in ("auto", *FAMILIES):
        raise CommandError(f"--family {family} is unknown; use auto, {', '.join(FAMILIES)}")
    if job.y.ndim == 2 and not (family in FAMILIES and issubclass(FAMILIES[family], FailureTime)):
        raise CommandError(f"--event is for --family weibull, log_normal or log_logistic, not for {family}")
    words = job.y.dtype.kind in "OUSb"
    classes = family == "multinomial" or (family in ("auto", "bernoulli", "binomial") and _is_zero_one(job.y))
    if words and family not in ("auto", "bernoulli", "binomial", "multinomial"):
        raise CommandError(f"the target is text, which --family {family} cannot be fitted to; use auto")
    made = AHOFMClassifier if words or classes else AHOFMRegressor
    return made(family="auto" if words or classes else family, columns=dict(columns) or None, **settings)


def _is_zero_one(y: NDArray[Any]) -> bool:
    return y.dtype.kind in "iuf" and set(np.unique(y).tolist()) == {0, 1}


def held_out(model: Any, job: Job, fraction: float, seed: int) -> dict[str, float]:
    """Scores on validation rows, of a fit to the others."""
    train, test = job.apart(fraction, seed)
    train.fit(model.set_params(cv=train.splits))
    return scores(model, test)


def scores(model: Any, job: Job) -> dict[str, float]:
    """What people expect for the kind of target."""
    from sklearn import metrics  # noqa: PLC0415 - takes a while

    weight = job.weight
    if isinstance(model, AHOFMClassifier):
        p = model.predict_proba(job.X, job.offset)
        found = {"accuracy": model.score(job.X, job.y, weight, job.offset)}
        found["log-loss"] = float(metrics.log_loss(job.y, p, sample_weight=weight, labels=model.classes_))
        if p.shape[1] == 2 and len(np.unique(job.y)) == 2:
            found["AUROC"] = float(metrics.roc_auc_score(job.y == model.classes_[1], p[:, 1], sample_weight=weight))
        return found
    if model.model_.family.censored:
        explained = model.score(job.X, job.y, weight, job.offset)
        return {"concordance": model.concordance(job.X, job.y, job.offset), "deviance explained": explained}
    mean = model.predict(job.X, job.offset)
    error = float(np.sqrt(metrics.mean_squared_error(job.y, mean, sample_weight=weight)))
    return {"deviance explained": model.score(job.X, job.y, weight, job.offset), "RMSE": error}

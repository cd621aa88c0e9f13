"""``ahofm predict``: from a model and a file to a file of predictions, piece by piece."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from ahofm.cli.errors import CommandError
from ahofm.cli.fitting import Job, Roles, job_of
from ahofm.cli.tables import PLAIN, Dialect, Writer, batches, format_of
from ahofm.cli.unseen import Unseen
from ahofm.columns.basis import Floats
from ahofm.columns.table import is_numeric, source_of_part
from ahofm.estimators.intervals import class_intervals, mean_interval, new_interval, with_std
from ahofm.explain import contributions, shapley_values
from ahofm.model import Band, Model
from ahofm.writing import replacing

ROWS = 50_000
"""In memory at a time."""


@dataclass(frozen=True)
class Wanted:
    """What was asked for besides the predictions themselves; ``parts`` is "shapley", "terms" or None."""

    missing: Sequence[str] = ()
    keep: Sequence[str] = ()
    interval: float | None = None
    kind: str = "mean"
    parts: str | None = None
    offset: str | None = None
    exposure: str | None = None
    dialect: Dialect = PLAIN

    @property
    def shifts(self) -> list[str]:
        """Columns that go into the offset."""
        return [name for name in (self.offset, self.exposure) if name]


def predict_file(model: Model, path: Path, out: Path | None, wanted: Wanted) -> tuple[int, Unseen]:
    """Write predictions to a file, or as CSV to the screen; how many rows, and what training had not seen of them."""
    if wanted.interval is not None:
        _check_intervals(model, wanted.kind)
    if out is None:
        return _write(model, path, Writer(sys.stdout.buffer, "csv"), wanted)
    with replacing(out) as draft:
        return _write(model, path, Writer(str(draft), format_of(out)), wanted)


def _check_intervals(model: Model, kind: str) -> None:
    """Refuse intervals that the model does not have."""
    if model.band is None:
        raise CommandError("--interval: the model was saved without its uncertainty: fit again without --fast")
    if model.classes is not None and kind != "mean":
        raise CommandError(f"--kind {kind}: a label has no interval; leave --kind out for those of probabilities")
    if model.classes is None and model.family.n_eta > 1:
        raise CommandError("--interval: the model has several linear predictors")


def _write(model: Model, path: Path, writer: Writer, wanted: Wanted) -> tuple[int, Unseen]:
    names, numbers = model.encoder.names, _numbers(model)
    types = {name: pa.float64() if name in numbers else pa.string() for name in names}
    types |= {name: pa.float64() for name in wanted.shifts}
    count, unseen = 0, Unseen(model.encoder.codebooks)
    for piece in batches(path, [*model.missing, *wanted.missing], types, ROWS, wanted.dialect):
        given = columns_of(names, piece.column_names)
        absent = [name for name in (*given, *wanted.keep, *wanted.shifts) if name not in piece.column_names]
        if absent:
            raise CommandError(f"{path}: lacks the column(s) {', '.join(map(repr, absent))} that the model needs")
        X = _as_in_training(piece.select(given), model)
        unseen.look_at(X)
        columns = {name: piece[name] for name in wanted.keep}
        found = _predictions(model, X, _shift(piece, wanted.offset, wanted.exposure), wanted)
        writer.write(pa.table(columns | {name: pa.array(values) for name, values in found.items()}))
        count += piece.num_rows
    if not count:
        raise CommandError(f"{path}: there are no rows, only names of columns")
    writer.close()
    return count, unseen


def job_for(model: Model, path: Path, roles: Roles) -> Job:
    """Rows of a file with their targets, and the columns that a model has."""
    job = job_of(path, roles)
    given = columns_of(model.encoder.names, job.names)
    absent = [name for name in given if name not in job.names]
    if absent:
        raise CommandError(f"{path}: lacks the column(s) {', '.join(map(repr, absent))} that the model needs")
    return replace(job, X=_as_in_training(job.X.select(given), model))


def _numbers(model: Model) -> set[str]:
    return {book.name for book in model.encoder.codebooks if is_numeric(book.support.values)}


def _as_in_training(X: Any, model: Model) -> Any:
    """With text in place of numbers that were levels in training."""
    levels = set(model.encoder.names) - _numbers(model)
    for at, name in enumerate(X.column_names):
        if name in levels and not pa.types.is_string(X[name].type):
            X = X.set_column(at, name, X[name].cast(pa.string()))
    return X


def columns_of(names: Sequence[str], there: Sequence[str]) -> list[str]:
    """Columns of a file that a model needs: those of dates in place of their parts, where the file has them."""
    found = [name if name in there else source_of_part(name, there) or name for name in names]
    return list(dict.fromkeys(found))


def _shift(piece: Any, offset: str | None, exposure: str | None) -> Floats | None:
    if exposure:
        values = np.asarray(piece[exposure].to_numpy(), dtype=np.float64)
        if not (values > 0).all():
            raise CommandError(f"--exposure {exposure}: values have to be positive")
        return np.log(values)
    return np.asarray(piece[offset].to_numpy(), dtype=np.float64) if offset else None


def _predictions(model: Model, X: Any, shift: Floats | None, wanted: Wanted) -> dict[str, Any]:
    found: dict[str, Any] = {}
    mean = model.mean(X, shift)
    if model.classes is not None:
        found["prediction"] = [str(label) for label in model.predict(X, shift)]
        shares = mean if mean.ndim == 2 else np.column_stack([1.0 - mean, mean])
        found |= {f"probability {label}": shares[:, k] for k, label in enumerate(model.classes)}
    else:
        found["prediction"] = mean
    if wanted.interval is not None and model.band is not None:
        found |= _intervals(model, model.band, X, shift, wanted.interval, wanted.kind)
    labels: list[Any] = [None] if model.family.n_eta == 1 else list(model.classes or range(model.family.n_eta))
    for label in labels if wanted.parts else []:
        ending = "" if label is None else f" ({label})"
        if wanted.parts == "shapley":
            own = shapley_values(model, X, linear_predictor=label)
            found[f"shapley base{ending}"] = np.full(len(own.values), own.base)
            found |= {f"shapley {name}{ending}": own.values[:, j] for j, name in enumerate(own.columns)}
        else:
            terms = contributions(model, X, linear_predictor=label)
            found[f"term intercept{ending}"] = np.full(len(terms.values), terms.intercept)
            found |= {f"term {name}{ending}": terms.values[:, j] for j, name in enumerate(terms.names)}
    return found


def _intervals(model: Model, band: Band, X: Any, shift: Floats | None, level: float, kind: str) -> dict[str, Floats]:
    """Columns of lower and upper ends: of the prediction, or of the probability of every class."""
    table = model.encoder.check(X)
    if model.classes is not None:
        both = class_intervals(model, *with_std(model, band, table, shift), level)
        return {
            f"{name} {label}": ends[:, k]
            for k, label in enumerate(model.classes)
            for name, ends in zip(("low", "high"), both, strict=True)
        }
    if kind == "mean":
        low, high = mean_interval(model, *with_std(model, band, table, shift), level)
    else:
        low, high = new_interval(model, band, table, shift, level, seed=0)
    return {"low": low, "high": high}

"""Models as files: safetensors with the model as JSON in the metadata. Nothing in a file is ever executed.

The metadata are ``{"format": "ahofm", "version": "10", "model": "", "sha256": <of it all>}``. The JSON of the model and
its tensors are in one tensor (``archive``), which earlier versions had one by one. A part of the model is a JSON object
with its "type" and exactly the fields of that dataclass, whose annotations are the schema. An array is a
tensor named by its place, such as ``model.linear_predictors.0.coef.2``; levels of text are a JSON list as bytes, in a
tensor too: safetensors limits its metadata. Roots of a band are lower triangles, their rows one after another in single
precision, which changes standard errors by a millionth. What a model has several times is stored once, and the records
of the trace are a tensor of JSON; then tensors are packed without loss. What was learned is stored, not how to learn it
again: every later version predicts the same.
"""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, fields
from math import isfinite, isqrt
from numbers import Integral, Real
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np
import safetensors.numpy
from numpy.typing import NDArray

from ahofm.columns import Basis, Codebook, ColumnKind, Encoder, Support
from ahofm.columns.categorical import Categorical, CategoricalBasis
from ahofm.columns.cyclic import Cyclic, CyclicBasis
from ahofm.columns.linear import EmptyBasis, Linear, LinearBasis
from ahofm.columns.random_walk import RandomWalk, RandomWalkBasis
from ahofm.columns.shaped import Shaped
from ahofm.columns.spline import Spline, SplineBasis
from ahofm.columns.spline_iid import SplineIID, SplineIIDBasis
from ahofm.columns.table import is_numeric
from ahofm.families import FAMILIES, Family
from ahofm.model.archive import merged, separate
from ahofm.model.band import Band
from ahofm.model.earlier_files import Tensors, add_loadings, renamed
from ahofm.model.error_quantiles import ErrorQuantiles
from ahofm.model.functions_view import FunctionsView
from ahofm.model.model import Model
from ahofm.model.near_rows import NearRows
from ahofm.model.packed_arrays import pack, unpack
from ahofm.model.predictor import Lower, Predictor
from ahofm.model.repeated import RepeatedRows
from ahofm.model.shared_factors import restore as restore_factors
from ahofm.model.stored_once import MOST_RESTORED, equal_tensors, restore, share
from ahofm.model.trace import Choice, Edit, Gain, Reason, Record, Trace, Validated
from ahofm.model.variance_model import VarianceModel
from ahofm.writing import replacing

FORMAT, VERSION = "ahofm", 11

_KINDS = (Categorical, Cyclic, Linear, SplineIID, Spline, RandomWalk, Shaped)
_WALKS = (RandomWalkBasis, RandomWalkBasis)
_BASES = (CategoricalBasis, CyclicBasis, LinearBasis, SplineIIDBasis, SplineBasis, *_WALKS, EmptyBasis)
_BASIS_OF: dict[type, type] = dict(zip((*_KINDS, NoneType), _BASES, strict=True))  # a constant column has no kind
_CHOICES: dict[Any, tuple[type, ...]] = {Basis: _BASES, ColumnKind: _KINDS, Family: tuple(FAMILIES.values())}
_PARTS = {
    Model,
    Band,
    Lower,
    Predictor,
    Choice,
    Edit,
    Gain,
    Encoder,
    Codebook,
    Support,
    Trace,
    Record,
    RepeatedRows,
    NearRows,
    Validated,
    VarianceModel,
    ErrorQuantiles,
}.union(*_CHOICES.values())
_HINTS = {cls: get_type_hints(cls) for cls in _PARTS}
_SCHEMAS = {cls: {field.name: hints[field.name] for field in fields(cls)} for cls, hints in _HINTS.items()}

_ADDED: dict[int, dict[type, frozenset[str]]] = {
    2: {
        Model: frozenset({"missing", "gains", "pearson_dispersion"}),
        Band: frozenset({"concurvity", "tests", "widths"}),
    },
    4: {
        Predictor: frozenset({"neutral"}),
        Band: frozenset({"loadings"}),
        Model: frozenset({"validated"}),
    },
    5: {
        Predictor: frozenset({"product_means"}),
        Band: frozenset({"correlated", "uncorrelated", "row_shifts", "product_means"}),
    },
    6: {Model: frozenset({"variance_model", "edits", "variance_components"})},
    7: {
        Predictor: frozenset({"end_slopes"}),
        Band: frozenset({"random_effects", "usual_std"}),
        Model: frozenset({"error_quantiles", "repeated"}),
    },
    10: {SplineBasis: frozenset({"gaps"})},
    11: {RepeatedRows: frozenset({"levels", "near"})},
}
"""Fields by the version that brought them: files of earlier ones lack them, and get the default."""

_TRIANGLES = "model.band.roots."
"""Tensors that are packed; in files of version 3 and before they may be square arrays of numbers."""

_RECORDS = "model.trace.records"
"""A tensor of JSON: a fit has hundreds, and bytes are packed."""

_WIDTHS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64")
_LABELS = {f"numpy.{name}": np.dtype(name).type for name in ("str", "bool", *_WIDTHS)}  # Python's are those of JSON


class ModelFileError(ValueError):
    """A file that is no model, not an intact one, or one of a later version."""


def save(model: Model, path: str | os.PathLike[str]) -> None:
    """Write a model to a file, whole or not at all: what was there before stays until the new file is complete.

    Raises TypeError for a family, column kind or label that is not built in, ValueError for parts that do not fit.
    """
    tensors = dict[str, NDArray[Any]]()
    parts = _pack(model, "model", tensors)
    tensors[_RECORDS] = _as_bytes(parts["trace"].pop("records"))
    share(parts, tensors)
    text, tensors = merged(json.dumps(parts, allow_nan=False), pack(tensors, equal_tensors(parts)))
    _check(model)
    metadata = {"format": FORMAT, "version": str(VERSION), "model": text, "sha256": _digest(text, tensors)}
    data = _sorted_header(safetensors.numpy.save(tensors, metadata))
    with replacing(path) as draft:
        draft.write_bytes(data)


def load(path: str | os.PathLike[str]) -> Model:
    """Read a model from a file that ``Model.save`` has written; :func:`ahofm.load` makes an estimator of it.

    Raises ModelFileError for a file that is no model file, is damaged, or was written by a newer version.
    """
    data = Path(path).read_bytes()  # not mapped: a file that is cut short while mapped ends the process
    try:
        tensors = safetensors.numpy.load(data)
        metadata = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")]).get("__metadata__") or {}
    except (safetensors.SafetensorError, KeyError, ValueError, RecursionError) as error:
        raise ModelFileError(f"{path} is damaged or no safetensors file ({error}); copy or save it again") from error
    version = metadata.get("version", "")
    if metadata.get("format") != FORMAT:
        raise ModelFileError(f"{path} is a safetensors file, but not one of ahofm; give one that Model.save wrote")
    if version.isascii() and version.isdecimal() and len(version) < 10 and int(version) > VERSION:
        raise ModelFileError(f"{path} was written by a newer ahofm; upgrade to read version {version} of model files")
    try:
        if version not in map(str, range(1, VERSION + 1)):
            raise ValueError(f"its version is {version!r}, which never was")
        text = metadata.get("model", "")
        if metadata.get("sha256") != _digest(text, tensors):
            raise ValueError("its checksum is wrong")
        parts, tensors = separate(text, tensors) if int(version) >= 10 else (json.loads(text), tensors)
        if int(version) < 7:
            parts, tensors = renamed(parts, tensors)
        if int(version) < 4:
            add_loadings(parts, "model", tensors)
        if int(version) >= 8:
            tensors = unpack(tensors, equal_tensors(parts))
            restore(parts, tensors, MOST_RESTORED * len(data), shared=True)
            parts = _with_records(parts, tensors)
        restore_factors(parts, tensors)
        model: Model = _unpack(_completed(parts, int(version)), Model, "model", tensors)
        if tensors:
            raise ValueError(f"tensors that belong to nothing: {', '.join(sorted(tensors)[:5])}")
        _check(model)
    except (ArithmeticError, LookupError, MemoryError, RecursionError, TypeError, ValueError) as error:
        what = f"invalid JSON, {error}" if isinstance(error, json.JSONDecodeError) else error
        raise ModelFileError(f"{path} is not an intact model file: {what}; copy or save it again") from error
    return model


def _with_records(parts: Any, tensors: Tensors) -> Any:
    """JSON of a model with the records of its trace, which are a tensor from version 8 on."""
    trace = parts.get("trace") if isinstance(parts, dict) else None
    if not isinstance(trace, dict):
        return parts  # and refused with its other fields
    records = tensors.pop(_RECORDS, None)
    if "records" in trace or records is None or records.dtype != np.uint8:
        raise ValueError(f"tensor {_RECORDS} is missing or of the wrong type, or the trace has other records")
    return {**parts, "trace": {**trace, "records": json.loads(records.tobytes())}}


def _completed(value: Any, version: int) -> Any:
    """JSON of an earlier version with the fields that came later, as their defaults."""
    if isinstance(value, list):
        return [_completed(item, version) for item in value]
    if not isinstance(value, dict):
        return value
    found = {name: _completed(item, version) for name, item in value.items()}
    for later in (added for number, added in _ADDED.items() if number > version):
        for cls, names in later.items():
            if found.get("type") == cls.__name__:
                defaults = {item.name: _default(item) for item in fields(cls) if item.name in names}
                found |= {name: _pack(default, "", {}) for name, default in defaults.items() if name not in found}
    return found


def _default(item: Field[Any]) -> Any:
    return item.default if item.default_factory is MISSING else item.default_factory()


def _digest(text: str, tensors: Tensors) -> str:
    """A checksum of everything: a flipped bit in a coefficient would be a valid file and another model."""
    digest = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        digest.update(f"{name} {tensors[name].dtype} {tensors[name].shape}".encode() + tensors[name].tobytes())
    return digest.hexdigest()


def _sorted_header(data: bytes) -> bytes:
    """The same file with metadata in order, not in the random one of safetensors: equal models are equal files."""
    end = 8 + int.from_bytes(data[:8], "little")
    header = json.dumps(json.loads(data[8:end]), sort_keys=True, separators=(",", ":")).encode()
    header += b" " * (-len(header) % 8)  # tensors stay aligned
    return len(header).to_bytes(8, "little") + header + data[end:]


def _pack(value: Any, where: str, tensors: Tensors) -> Any:  # noqa: PLR0911 - one return a type
    """JSON of a value; its arrays go to the tensors."""
    if where.startswith(_TRIANGLES) and isinstance(value, np.ndarray) and value.ndim == 2:
        tensors[where] = _finite(value[np.tril_indices(len(value))].astype(np.float32), where)
        return {"type": "triangle"}
    if isinstance(value, np.ndarray) and is_numeric(value):
        tensors[where] = _finite(np.ascontiguousarray(value, dtype=np.float64), where)
        return {"type": "numbers"}
    if isinstance(value, np.ndarray):
        tensors[where] = _as_bytes(value.tolist())
        return {"type": "levels"}
    if isinstance(value, (tuple, FunctionsView)):
        return [_pack(item, f"{where}.{k}", tensors) for k, item in enumerate(value)]
    if isinstance(value, Mapping):
        return {str(key): _pack(item, f"{where}.{key}", tensors) for key, item in value.items()}
    if type(value) in _PARTS:
        parts = {name: _pack(getattr(value, name), f"{where}.{name}", tensors) for name in _SCHEMAS[type(value)]}
        return {"type": type(value).__name__, **parts}
    return value.name if isinstance(value, Reason) else _pack_scalar(value, where)


def _as_bytes(value: Any) -> NDArray[np.uint8]:
    return np.frombuffer(json.dumps(value, allow_nan=False).encode(), dtype=np.uint8)


def _pack_scalar(value: Any, where: str) -> Any:
    label = "numpy.str" if isinstance(value, np.str_) else f"numpy.{getattr(value, 'dtype', None)}"
    if where.startswith("model.classes.") and label in _LABELS:
        return {"type": label, "value": value.item()}
    if value is None or isinstance(value, (str, bool)):
        return value
    if isinstance(value, Real) and (label in _LABELS or not isinstance(value, np.generic)):
        number = int(value) if isinstance(value, Integral) else _finite(float(value), where)
        return number if isfinite(number) else str(number)
    remedy = "model files hold built-in families, column kinds and labels only: pickle the estimator instead"
    raise TypeError(f"{where} is of type {type(value).__name__}, which is not built in; {remedy}")


def _unpack(value: Any, hint: Any, where: str, tensors: Tensors) -> Any:  # noqa: PLR0911 - one return a type
    """The value of a field with that annotation; its arrays are taken out of the tensors."""
    origin, args = get_origin(hint), get_args(hint)
    if hasattr(origin, "__value__"):  # a `type` statement, as NDArray is one in newer NumPy
        return _unpack(value, origin.__value__[args], where, tensors)
    if origin in (Union, UnionType):
        wanted = NoneType if value is None else tuple if isinstance(value, list) else Literal
        hint = next((option for option in args if wanted in (option, get_origin(option))), args[0])
        return None if hint is NoneType else _unpack(value, hint, where, tensors)
    if origin in (tuple, Sequence) and isinstance(value, (list, FunctionsView)):  # the latter from :func:`restore`
        return (
            value
            if isinstance(value, FunctionsView)
            else tuple(_unpack(item, args[0], f"{where}.{k}", tensors) for k, item in enumerate(value))
        )
    if origin is Mapping and isinstance(value, dict):
        if any(str(args[0](key)) != key for key in value):
            raise ValueError(f"{where} has keys that are not integers")
        return {args[0](key): _unpack(item, args[1], f"{where}.{key}", tensors) for key, item in value.items()}
    if origin is np.ndarray:
        return _unpack_array(value, args[-1] != np.dtype[np.float64], where, tensors)
    if hint in (bool, int, float, str, Any) or origin is Literal:
        return _unpack_scalar(value, hint, where)
    if hint is Reason and value in Reason.__members__:
        return Reason[value]
    named = {cls.__name__: cls for cls in _CHOICES.get(hint, (hint,)) if cls in _PARTS}
    cls = named.get(value.get("type")) if isinstance(value, dict) else None
    if cls is None:
        raise ValueError(f"{where} should be {getattr(hint, '__name__', hint)}, not {str(value)[:60]}")
    schema = _SCHEMAS[cls]
    if wrong := schema.keys() ^ (value.keys() - {"type"}):
        raise ValueError(f"{where} lacks, or should not have, {', '.join(sorted(wrong))}")
    part = cls(**{name: _unpack(value[name], schema[name], f"{where}.{name}", tensors) for name in schema})
    if isinstance(part, ColumnKind):
        part.validate()
    return part


def _unpack_scalar(value: Any, hint: Any, where: str) -> Any:
    if hint is Any and isinstance(value, dict) and value.get("type") in _LABELS:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # older NumPy warns of what does not fit, newer NumPy raises
            label = _LABELS[value["type"]](value["value"])
        same = [type(label.item()), label.item(), 2] == [type(value["value"]), value["value"], len(value)]
        value, hint = label if same else value, type(label)
    elif hint is Any and isinstance(value, (str, bool, int, float)):
        hint = type(value)
    elif {hint, type(value)} == {int, float} and hint(value) == value:
        value = hint(value)
    elif hint is float and value in ("inf", "-inf", "nan") and where.startswith("model.trace."):
        return float(value)
    fits = value in get_args(hint) if get_origin(hint) is Literal else type(value) is hint
    if not fits or (isinstance(value, Real) and not isfinite(value)):
        raise ValueError(f"{where} should be {getattr(hint, '__name__', hint)}, not {str(value)[:60]}")
    return value


def _unpack_array(value: Any, text: bool, where: str, tensors: Tensors) -> NDArray[Any]:
    levels, numbers = text and value == {"type": "levels"}, value == {"type": "numbers"}
    array = tensors.pop(where, None)
    if value == {"type": "triangle"} and where.startswith(_TRIANGLES):
        return _square(array, where)
    if array is None or not (levels or numbers) or array.dtype != (np.uint8 if levels else np.float64):
        raise ValueError(f"tensor {where} is missing or of the wrong type")
    if not levels:
        return np.array(_finite(array, where))
    texts = json.loads(array.tobytes())
    if not isinstance(texts, list) or not all(isinstance(level, str) for level in texts):
        raise ValueError(f"tensor {where} is not a list of texts")
    return np.array([*texts, None], dtype=object)[:-1]


def _square(packed: NDArray[Any] | None, where: str) -> NDArray[np.float64]:
    """A lower triangle (P, P) of its P (P + 1) / 2 numbers."""
    if packed is None or packed.dtype != np.float32 or packed.ndim != 1:
        raise ValueError(f"tensor {where} is missing or of the wrong type")
    size = (isqrt(8 * len(packed) + 1) - 1) // 2
    if size * (size + 1) // 2 != len(packed):
        raise ValueError(f"tensor {where} has {len(packed)} numbers, which make no triangle")
    out = np.zeros((size, size))
    out[np.tril_indices(size)] = _finite(packed, where)
    return out


def _finite(value: Any, where: str) -> Any:
    if not np.isfinite(value).all() and not where.startswith("model.trace."):  # which tells of fits that diverged
        raise ValueError(f"{where} holds NaN or infinities")
    return value


def _check(model: Model) -> None:
    """Raise ValueError unless the parts make sense together; fields have their types, and numbers are finite."""
    names = model.encoder.names
    for book in model.encoder.codebooks:
        if not _sound(book):
            raise ValueError(f"column {book.name!r} has codes, functions or weights that do not fit together")
    if not names or len(set(names)) < len(names) or not model.total > 0.0:
        raise ValueError("it has no columns, two of the same name, or no training weight")
    smoothing_parameters = [
        row.shape == (len(names),) and (row >= 0.0).all() for row in model.smoothing_parameters.values()
    ]
    if model.smoothing_parameters.keys() != set(model.ranks.all) or not all(smoothing_parameters):
        raise ValueError("smoothing parameters are not one number of at least 0 per order and column")
    if model.classes is not None and len(model.classes) != max(2, model.family.n_eta):
        raise ValueError(f"{len(model.classes)} class labels are not one per class")


def _sound(book: Codebook) -> bool:
    """Whether a codebook could have been learned, as far as predictions rely on it."""
    kind, edges, basis, values, mass = book.kind, book.edges, book.functions, book.support.values, book.support.mass
    text, by_level = not is_numeric(values), isinstance(kind, Categorical)
    smooth = basis.smooth if isinstance(basis, SplineIIDBasis) else basis
    places = basis.knots if isinstance(basis, RandomWalkBasis) else getattr(basis, "levels", values)
    ok = type(basis) is _BASIS_OF[type(kind)] and np.array_equal(places, values) and book.missing_mass >= 0.0
    ok &= mass.shape == values.shape and bool((mass >= 0.0).all())
    ok &= kind is None or (len(values) > 1 and (edges is None) == by_level and (by_level or not text))
    ok &= edges is None or (not text and len(edges) == max(len(values) - 1, 0))
    ok &= values.ndim == 1 and len(set(values.tolist())) == len(values)  # levels may have an order of their own
    for array in (None if text else values, edges):
        ok &= array is None or (array.ndim == 1 and bool((array[1:] > array[:-1]).all()))
    for part in (book.support, smooth):
        ok &= getattr(part, "low", 0.0) <= getattr(part, "high", 0.0) and getattr(part, "period", 1.0) > 0.0
    if isinstance(smooth, (SplineBasis, CyclicBasis)):
        ok &= 0 <= smooth.degree < smooth.size and smooth.penalty_order > 0
    if isinstance(smooth, SplineBasis):
        ends = smooth.knots[[smooth.degree, smooth.size]].tolist()
        ok &= ends == [0.0, 1.0] and bool((np.diff(smooth.knots) >= 0.0).all()) and smooth.low < smooth.high
        ends = [end for gap in smooth.gaps for end in gap]
        ok &= all(len(gap) == 2 and gap[0] < gap[1] for gap in smooth.gaps) and sorted(ends) == ends
        ok &= set(ends) <= set(values.ravel().tolist())
    with np.errstate(all="ignore"):  # last, for functions that make sense: at the codes they are finite
        return ok and book.basis.shape == (book.n_codes, book.size) and bool(np.isfinite(book.basis.data).all())

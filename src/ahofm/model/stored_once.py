"""Model files: what a model has several times is stored once, from version 9 on.

**Functions.** Linear predictors, also those of lower orders, have many functions in common: classes share their curves,
and factors of a lower order are often factors of the model. All different functions of column j are the columns of a
tensor ``model.functions.j``; ``model.functions.j.which`` has, for each linear predictor one after another, which of
these its functions are, and ``model.functions.j.centring`` their centring.

**Edges** between codes that are exactly the middles of neighbouring values of the support are not stored.

**Equal tensors** are stored once: the levels of a basis are the values of the support, say.

The JSON of the model says so in ``"stored_once": {"widths": of the linear predictors, "middles": names of tensors,
"equal": {name of a tensor: name of the one that is stored}}``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ahofm.columns.basis import Floats
from ahofm.model.earlier_files import Tensors
from ahofm.model.functions_view import FunctionsView
from ahofm.orders import FACTORS, MAIN

_ENTRY = "stored_once"
_FUNCTIONS = "model.functions"
_EDGES = ".edges"
_NUMBERS, _SHARED = {"type": "numbers"}, {"type": "functions"}
_LEAST_BYTES = 64
"""Names take more than smaller tensors."""

MOST_RESTORED = 10_000
"""Bytes of tensors that are made per byte of a file: a model of 11 classes has 500."""


def share(model: Any, tensors: Tensors) -> None:
    """Remove from the tensors of a packed model what :func:`restore` can make, and note that in its JSON."""
    widths = _share_functions(model, tensors)
    middles = [name for name, values in _edges(tensors) if tensors[name].tobytes() == _middles(values).tobytes()]
    for name in middles:
        del tensors[name]
    equal, first = {}, dict[tuple[str, tuple[int, ...], bytes], str]()
    for name, tensor in list(tensors.items()):
        if tensor.nbytes >= _LEAST_BYTES:
            same = first.setdefault((tensor.dtype.str, tensor.shape, tensor.tobytes()), name)
            if same != name:
                equal[name] = same
                del tensors[name]
    model[_ENTRY] = {"widths": widths, "middles": middles, "equal": equal}


def equal_tensors(model: Any) -> dict[str, str]:
    """Names of tensors that are not stored, and those that they equal; what is wrong there :func:`restore` refuses."""
    entry = model.get(_ENTRY) if isinstance(model, dict) else None
    equal = entry.get("equal") if isinstance(entry, dict) else None
    return {name: same for name, same in equal.items() if isinstance(same, str)} if isinstance(equal, dict) else {}


def restore(model: Any, tensors: Tensors, most_bytes: float, *, shared: bool = False) -> None:
    """Undo :func:`share`. Raises ValueError where tensors do not match, or would be too large.

    With ``shared``, linear predictors of one fit whose factors are all the same get :class:`FunctionsView` in the place
    of JSON: no copy of the factors is made for each of them.
    """
    entry = model.pop(_ENTRY, None) if isinstance(model, dict) else None
    if entry is None:
        return
    if not isinstance(entry, dict) or entry.keys() != {"widths", "middles", "equal"}:
        raise ValueError(f"{_ENTRY} should have widths, middles and equal tensors, not {str(entry)[:60]}")
    for name, same in dict(entry["equal"]).items():
        if name in tensors or same not in tensors:
            raise ValueError(f"tensor {name} is there twice, or {same}, which it should equal, is missing")
        most_bytes -= tensors[same].nbytes
        _refuse_large(most_bytes)
        tensors[name] = tensors[same]
    for name in list(entry["middles"]):
        values = tensors.get(_values_of(str(name)))
        if name in tensors or values is None or values.dtype != np.float64 or values.ndim != 1:
            raise ValueError(f"tensor {name} is there twice, or there are no numbers that it is between")
        tensors[name] = _middles(values)
    _restore_functions(model, tensors, list(entry["widths"]), most_bytes, shared)


def _refuse_large(most_bytes: float) -> None:
    if most_bytes < 0:
        raise ValueError("its tensors would be too large for its size")


def _share_functions(model: Any, tensors: Tensors) -> list[int]:
    """Widths of the linear predictors, whose functions are then those of :data:`_FUNCTIONS`."""
    found = list(_linear_predictors(model, "model"))
    widths = [tensors[f"{where}.centring.0"].size for _, where in found]
    for j in range(len(found[0][0]["coef"])):
        functions = np.hstack([tensors.pop(f"{where}.coef.{j}") for _, where in found])
        centring = np.concatenate([tensors.pop(f"{where}.centring.{j}") for _, where in found])
        first: dict[bytes, int] = {}
        which = [first.setdefault(function.tobytes(), len(first)) for function in functions.T.copy()]
        kept = np.unique(which, return_index=True)[1]
        tensors[f"{_FUNCTIONS}.{j}"] = np.ascontiguousarray(functions[:, kept])
        tensors[f"{_FUNCTIONS}.{j}.which"] = np.array(which, dtype=np.float64)
        tensors[f"{_FUNCTIONS}.{j}.centring"] = centring
    for parts, _ in found:
        parts["coef"] = parts["centring"] = dict(_SHARED)
    return widths


def _restore_functions(model: Any, tensors: Tensors, widths: list[int], most_bytes: float, shared: bool) -> None:
    found = [one for one in _linear_predictors(model, "model") if one[0].get("coef") == _SHARED]
    if len(widths) != len(found) or not all(type(width) is int and width > 0 for width in widths):
        raise ValueError(f"widths {str(widths)[:60]} are not those of {len(found)} linear predictors")
    columns = _columns(tensors, widths, most_bytes)
    fits = dict[str, list[int]]()
    for i, (_, where) in enumerate(found):
        fits.setdefault(where.rpartition(".")[0], []).append(i)
    for members in fits.values():
        arrays = _with_the_same_factors([column.of(members) for column in columns]) if shared else None
        for k, i in enumerate(members):
            parts, where = found[i]
            if arrays is not None:
                parts["coef"], parts["centring"] = (
                    FunctionsView(shared_arrays, k, len(members)) for shared_arrays in arrays
                )
                continue
            for j, column in enumerate(columns):
                tensors[f"{where}.coef.{j}"] = np.take(column.functions, column.which[i], axis=1)
                tensors[f"{where}.centring.{j}"] = column.centring[i]
            parts["coef"], parts["centring"] = ([dict(_NUMBERS) for _ in columns] for _ in range(2))


class _Column(NamedTuple):
    """All functions of a column, and of each linear predictor which they are, and their centring."""

    functions: Floats
    which: Sequence[NDArray[np.int64]]
    centring: Sequence[Floats]

    def of(self, members: Sequence[int]) -> _Column:
        """Of some of the linear predictors."""
        return _Column(self.functions, [self.which[i] for i in members], [self.centring[i] for i in members])


def _columns(tensors: Tensors, widths: list[int], most_bytes: float) -> list[_Column]:
    """Take all columns out of the tensors. Raises ValueError where these do not fit one another, or are too many."""
    ends, total = np.cumsum(widths)[:-1], sum(widths)
    columns = list[_Column]()
    while (place := f"{_FUNCTIONS}.{len(columns)}") in tensors:
        names = place, f"{place}.which", f"{place}.centring"
        functions, which, centring = (tensors.pop(name, None) for name in names)
        if functions is None or which is None or centring is None or not _fit(functions, which, centring, total):
            raise ValueError(f"tensors {place} are missing, or do not fit one another")
        if not (np.isfinite(functions).all() and np.isfinite(centring).all()):
            raise ValueError(f"tensors {place} hold NaN or infinities")
        most_bytes -= len(functions) * functions.itemsize * total
        _refuse_large(most_bytes)
        columns.append(_Column(functions, np.split(which.astype(np.int64), ends), np.split(centring, ends)))
    return columns


def _with_the_same_factors(columns: Sequence[_Column]) -> tuple[tuple[Floats, ...], tuple[Floats, ...]] | None:
    """Functions and centring of all main effects, then of the factors; None unless linear predictors share these."""
    coef, centring = [], []
    for column in columns:
        if len(column.which) < 2 or len({len(which) for which in column.which}) > 1:
            return None
        which, constants = np.array(column.which), np.array(column.centring)
        bits = constants.view(np.int64)  # zeros have signs
        if any((array[:, FACTORS] != array[0, FACTORS]).any() for array in (which, bits)):
            return None
        chosen = np.concatenate([which[:, MAIN], which[0, FACTORS]])
        coef.append(np.take(column.functions, chosen, axis=1))
        centring.append(np.concatenate([constants[:, MAIN], constants[0, FACTORS]]))
    return tuple(coef), tuple(centring)


def _fit(functions: NDArray[Any], which: NDArray[Any], centring: NDArray[Any], total: int) -> bool:
    """Whether functions (n, distinct), their choice and the centring (total,) have fitting types, shapes and values."""
    ok = functions.dtype == which.dtype == centring.dtype == np.float64 and functions.ndim == 2
    ok = ok and which.shape == centring.shape == (total,)
    return ok and bool(((which >= 0) & (which < functions.shape[1]) & (which % 1.0 == 0.0)).all())


def _linear_predictors(model: Any, where: str) -> Iterator[tuple[dict[str, Any], str]]:
    """JSON and place of all linear predictors: those of the model, of its lower orders, and of its variance."""
    found = model if isinstance(model, dict) else {}
    linear_predictors, lower = found.get("linear_predictors"), found.get("lower")
    for k, parts in enumerate(linear_predictors if isinstance(linear_predictors, list) else []):
        if isinstance(parts, dict):
            yield parts, f"{where}.linear_predictors.{k}"
    for k, one in enumerate(lower if isinstance(lower, list) else []):
        yield from _linear_predictors(one, f"{where}.lower.{k}")
    variance = found.get("variance_model")
    if isinstance(variance, dict) and isinstance(variance.get("effects"), dict):
        yield variance["effects"], f"{where}.variance_model.effects"


def _edges(tensors: Tensors) -> Iterator[tuple[str, NDArray[np.float64]]]:
    """Names of all edges of numbers, and the values of the support between which they are."""
    for name, tensor in tensors.items():
        values = tensors.get(_values_of(name))
        if name.endswith(_EDGES) and values is not None and values.dtype == tensor.dtype == np.float64:
            yield name, values


def _values_of(edges: str) -> str:
    return edges.removesuffix(_EDGES) + ".support.values"


def _middles(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(0.5 * values[:-1] + 0.5 * values[1:])

"""Model files from version 10 on: JSON and all tensors of a model in one, as names of thousands of tensors are long.

The tensor ``model`` is made of bytes: the length of a zlib stream, the stream, and the tensors one after another. The
stream holds the JSON of ``{"model": <JSON>, "tensors": [[name, type, shape], ...]}``; small tensors are in it too.
"""

from __future__ import annotations

import json
import struct
import zlib
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ahofm.model.earlier_files import Tensors

NAME = "model"
_HEAD = "<QQQ"
"""Bytes of the stream, and of the JSON and the small tensors in it."""

_SMALL = 512
_TYPES: dict[str, np.dtype[Any]] = {"uint8": np.dtype("u1"), "float32": np.dtype("<f4"), "float64": np.dtype("<f8")}
_MOST_INFLATED = 200
"""Bytes of the JSON and of small tensors per byte of all; zlib would reach 1,000 for zeros, and be a bomb."""


def merged(text: str, tensors: Tensors) -> tuple[str, Tensors]:
    """One tensor of the JSON of a model and its tensors, and no JSON; these themselves where that is a bomb."""
    small = {name: array for name, array in tensors.items() if array.nbytes < _SMALL}
    arrays = {**small, **tensors}
    entries = [[name, array.dtype.name, list(array.shape)] for name, array in arrays.items()]
    both = {"model": json.loads(text), "tensors": entries}
    listed = json.dumps(both, separators=(",", ":"), allow_nan=False).encode()
    contents = [np.ascontiguousarray(array, _TYPES[array.dtype.name]).tobytes() for array in arrays.values()]
    inside = b"".join(contents[: len(small)])
    stream = zlib.compress(listed + inside, 9)
    data = struct.pack(_HEAD, len(stream), len(listed), len(inside)) + stream + b"".join(contents[len(small) :])
    if len(listed) + len(inside) > _MOST_INFLATED * len(data):
        return text, tensors
    return "", {NAME: np.frombuffer(data, np.uint8)}


def separate(text: str, tensors: Tensors) -> tuple[Any, Tensors]:
    """JSON of the model, as an object, and its tensors. Raises ValueError for what :func:`merged` has not made."""
    if text or tensors.keys() != {NAME}:
        return json.loads(text), tensors
    array = tensors[NAME]
    if array.dtype != np.uint8 or array.ndim != 1 or array.size < struct.calcsize(_HEAD):
        raise ValueError(f"tensor {NAME} is not made of bytes, or of too few")
    data = array.tobytes()
    length, of_json, of_small = struct.unpack_from(_HEAD, data)
    start = struct.calcsize(_HEAD)
    if of_json + of_small > _MOST_INFLATED * len(data):
        raise ValueError("its JSON would be too large for its size")
    inflater = zlib.decompressobj()
    try:
        content = inflater.decompress(data[start : start + length], of_json + of_small + 1)
    except zlib.error as error:
        raise ValueError(f"tensor {NAME} has a damaged stream: {error}") from error
    if len(content) != of_json + of_small or not inflater.eof or inflater.unused_data:
        raise ValueError(f"tensor {NAME} has a stream of another size")
    found = json.loads(content[:of_json])
    if not isinstance(found, dict) or found.keys() != {"model", "tensors"}:
        raise ValueError(f"tensor {NAME} has no model and tensors")
    return found["model"], _tensors(found["tensors"], content[of_json:] + data[start + length :])


def _tensors(entries: Any, data: bytes) -> Tensors:
    """Arrays one after another in the data, which they use up."""
    found, start = dict[str, NDArray[Any]](), 0
    for name, kind, shape in entries:
        if not isinstance(name, str) or name in found or kind not in _TYPES or not isinstance(shape, list):
            raise ValueError(f"tensor {str(name)[:60]} is there twice, or of an unknown type")
        if len(shape) > 2 or not all(type(size) is int and size >= 0 for size in shape):
            raise ValueError(f"tensor {name} has shape {str(shape)[:60]}")
        dtype = _TYPES[kind]
        end = start + prod(shape) * dtype.itemsize
        if end > len(data):
            raise ValueError(f"tensor {name} is not whole")
        found[name] = np.frombuffer(data, dtype, prod(shape), start).reshape(shape)
        start = end
    if start < len(data):
        raise ValueError(f"{len(data) - start} bytes belong to no tensor")
    return found

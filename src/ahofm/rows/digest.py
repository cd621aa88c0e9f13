"""A checksum of values of any kind: every number, name, order, type and shape counts.

Every value goes in with its type and its length, so that no two different ones look the same; an array with its dtype,
its shape and all its bytes, not as it is printed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Set
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

_PLAIN = (str, float, int, bool, type(None))


def digest_of(*values: Any) -> str:
    """SHA-256 of values and of all that is in them."""
    return _bytes_of(values).hex()


def _bytes_of(value: Any) -> bytes:
    """Of one value: its type and its parts, each of known length."""
    kind, parts = _parts(value)
    digest = hashlib.sha256(kind.encode() + b"\0")
    for part in parts:
        data = part if isinstance(part, (bytes, memoryview)) else _bytes_of(part)
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.digest()


def _parts(value: Any) -> tuple[str, list[Any]]:  # noqa: PLR0911 - one return a type
    if value is None or isinstance(value, (bool, int, float, complex, str)):
        return _name(type(value)), [
            (str(value) if isinstance(value, str) else repr(value)).encode("utf-8", "surrogatepass")
        ]
    if isinstance(value, (bytes, bytearray)):
        return "bytes", [bytes(value)]
    if isinstance(value, (np.ndarray, np.generic)):
        array = np.asarray(value)
        if array.dtype.hasobject:
            items = array.ravel().tolist()
            plain = all(type(item) in _PLAIN for item in items)  # at once: a table may have millions
            return f"{type(value).__name__} of objects", [array.shape, repr(items).encode() if plain else items]
        shape = repr((array.dtype.str, array.shape)).encode()
        return type(value).__name__, [shape, np.ascontiguousarray(array).reshape(-1).view(np.uint8).data]
    if isinstance(value, (list, tuple)):
        return _name(type(value)), list(value)
    if isinstance(value, Mapping):  # in whatever order they were given
        return "mapping", [
            part for pair in sorted((_bytes_of(k), _bytes_of(v)) for k, v in value.items()) for part in pair
        ]
    if isinstance(value, Set):
        return "set", sorted(_bytes_of(item) for item in value)
    if isinstance(value, type):
        return "type", [_name(value).encode()]
    if is_dataclass(value):
        return _name(type(value)), [part for item in fields(value) for part in (item.name, getattr(value, item.name))]
    if not callable(value) and hasattr(value, "__dict__"):
        return _name(type(value)), [vars(value)]
    return _name(type(value)), [repr(value).encode()]  # with an address, where nothing else is known: like no other


def _name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"

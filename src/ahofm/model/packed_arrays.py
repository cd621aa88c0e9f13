"""Model files: arrays that are smaller when packed, without any loss.

A tensor ``<place>.packed`` holds bytes: an encoding, the array's shape, and a zlib stream. Functions of a column are
mostly smooth along its values, and those of large models are multiples of powers of two (``rounding``): of each
column of numbers, the stream holds the exponent, and the integers or their first or second differences, the first
bytes of all, then the second ones. Values of columns often have few decimals: of these it holds integers over a power
of ten, and how far the few others are from such numbers (from version 9 of model files on). Numbers that are neither
are split into their eight bytes. From version 10 on, integers are stored as differences from predictions
(``predicted_integers``); the differences of version 9 are read. Sizes are checked before anything is inflated: what
comes out of a file is never more than a fixed multiple of what is in it.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Mapping
from math import prod
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ahofm.columns.basis import Floats
from ahofm.model import predicted_integers

Tensors: TypeAlias = dict[str, NDArray[Any]]

_SUFFIX = ".packed"
_FUNCTIONS, _CODEBOOKS, _MASS = "model.functions.", "model.encoder.codebooks.", ".support.mass"
_TEXT, _NUMBERS, _INTEGERS, _DECIMALS, _PREDICTED = range(5)
_LEAST_BYTES = 512
"""Smaller arrays are stored as they are."""

_MOST_INFLATED = 100
"""Bytes of an array per byte of its packed form; zlib would reach 1,000 for zeros, and be a bomb."""

_MOST_DIMENSIONS = 2
_MOST_DIFFERENCES = 2
_MOST_EXPONENT = 1_000
_MOST_DECIMALS, _LEAST_DECIMALS = 9, 0.5
"""Digits behind the point, and the fraction of an array's numbers that have so few."""

_LOWEST = np.iinfo(np.int64).min


def pack(tensors: Tensors, equal: Mapping[str, str] | None = None) -> Tensors:
    """The same tensors, with those packed that are smaller so: text (bytes) and numbers in double precision.

    ``equal`` says of tensors that are not there which ones they equal.
    """
    found = dict[str, NDArray[Any]]()
    for name, array in tensors.items():
        packed = _packed(array, _mass_of(name, tensors, equal or {}))
        if packed is None or len(packed) >= array.nbytes:
            found[name] = array
        else:
            found[f"{name}{_SUFFIX}"] = np.frombuffer(packed, np.uint8)
    return found


def unpack(tensors: Tensors, equal: Mapping[str, str] | None = None) -> Tensors:
    """Undo :func:`pack`. Raises ValueError where a packed tensor is not what :func:`pack` could have made."""
    found = {name: array for name, array in tensors.items() if not name.endswith(_SUFFIX)}
    for name in sorted(tensors.keys() - found.keys()):  # the mass of codes comes before functions
        place = name.removesuffix(_SUFFIX)
        if place in found:
            raise ValueError(f"tensor {place} is there twice")
        try:
            found[place] = _unpacked(tensors[name], _mass_of(place, found, equal or {}))
        except (struct.error, zlib.error, ValueError) as error:
            raise ValueError(f"tensor {name} is not a packed array: {error}") from error
    return found


def _mass_of(name: str, tensors: Tensors, equal: Mapping[str, str]) -> Floats | None:
    """Mass of the codes of functions, which are the last rows of the array; None for other arrays."""
    if not name.startswith(_FUNCTIONS):
        return None
    place = f"{_CODEBOOKS}{name.removeprefix(_FUNCTIONS)}{_MASS}"
    array, mass = tensors.get(name), tensors.get(equal.get(place, place))
    if mass is None or mass.dtype != np.float64 or mass.ndim != 1 or not len(mass):
        return None
    return mass if array is None or (array.ndim == 2 and len(array) >= len(mass)) else None


def _packed(array: NDArray[Any], mass: Floats | None) -> bytes | None:
    """Encoding, number of dimensions, shape, stream; None for arrays that are not packed."""
    if array.nbytes < _LEAST_BYTES or array.ndim > _MOST_DIMENSIONS:
        return None
    if array.dtype == np.uint8 and array.ndim == 1:
        return _with_header(_TEXT, array, array.tobytes())
    if array.dtype != np.float64:
        return None
    columns = np.ascontiguousarray(array.reshape(len(array), -1).T, dtype="<f8")
    predicted = _as_predicted(columns, mass)
    if predicted is not None and array.nbytes <= _MOST_INFLATED * len(predicted):
        return _header(_PREDICTED, array) + predicted
    return _with_header(*_encoded(columns, array))


def _encoded(columns: NDArray[np.float64], array: NDArray[Any]) -> tuple[int, NDArray[Any], bytes]:
    """The encoding, the array (its shape is what counts) and the content that is compressed."""
    integers = _as_integers(columns)
    if integers is not None:
        return _INTEGERS, array, integers
    decimals = _as_decimals(columns)
    if decimals is not None:
        return _DECIMALS, array, decimals
    return _NUMBERS, array, _by_place(columns)


def _header(encoding: int, array: NDArray[Any]) -> bytes:
    return struct.pack(f"<BB{array.ndim}Q", encoding, array.ndim, *array.shape)


def _with_header(encoding: int, array: NDArray[Any], content: bytes) -> bytes:
    header = _header(encoding, array)
    stream = zlib.compress(content, 9)
    # Almost all zeros: a code of one bit each is small enough.
    if max(len(content), array.nbytes) > _MOST_INFLATED * (len(header) + len(stream)):
        compressor = zlib.compressobj(9, strategy=zlib.Z_HUFFMAN_ONLY)
        stream = compressor.compress(content) + compressor.flush()
    return header + stream


def _unpacked(packed: NDArray[Any], mass: Floats | None) -> NDArray[Any]:
    if packed.dtype != np.uint8 or packed.ndim != 1:
        raise ValueError("it is not made of bytes")
    data = packed.tobytes()
    encoding, dimensions = struct.unpack_from("<BB", data)
    if encoding not in (_TEXT, _NUMBERS, _INTEGERS, _DECIMALS, _PREDICTED) or dimensions > _MOST_DIMENSIONS:
        raise ValueError(f"encoding {encoding} and {dimensions} dimensions are unknown")
    shape = struct.unpack_from(f"<{dimensions}Q", data, 2)
    start, count = 2 + 8 * dimensions, prod(shape)
    width, itemsize = prod(shape[1:]), 1 if encoding == _TEXT else 8
    size = itemsize * count
    if encoding in (_INTEGERS, _DECIMALS):
        size = (1 + 8 * count) * (encoding == _DECIMALS) + 3 * width + 4 * count
    if max(size, itemsize * count) > _MOST_INFLATED * len(data):
        raise ValueError(f"shape {shape} is too large for {len(data)} bytes")
    if encoding == _PREDICTED:
        rows = count // max(width, 1)
        codes = mass if mass is not None and rows >= len(mass) else None  # a basis may have fewer functions
        return predicted_integers.decode(data[start:], (rows, width), codes).reshape(shape)
    inflater = zlib.decompressobj()
    content = inflater.decompress(data[start:], size + 1)
    if len(content) != size or not inflater.eof or inflater.unused_data:
        raise ValueError(f"its content is not the {size} bytes of shape {shape}")
    if encoding == _TEXT:
        return np.frombuffer(content, np.uint8).reshape(shape)
    if encoding == _NUMBERS:
        columns = _from_places(content, np.dtype("<f8"), count).reshape(width, -1)
    elif encoding == _DECIMALS:
        columns = _from_decimals(content, width, count)
    else:
        columns = _from_integers(content, width, count)
    return np.ascontiguousarray(columns.T).reshape(shape)


def _by_place(numbers: NDArray[Any]) -> bytes:
    """First bytes of all numbers, then second bytes, and so on."""
    return numbers.view(np.uint8).reshape(-1, numbers.itemsize).T.tobytes()


def _from_places(content: bytes, dtype: np.dtype[Any], count: int) -> NDArray[Any]:
    places = np.frombuffer(content, np.uint8).reshape(dtype.itemsize, count)
    return np.ascontiguousarray(places.T).view(dtype).reshape(count)


def _as_predicted(columns: NDArray[np.float64], mass: Floats | None) -> bytes | None:
    """Columns (width, numbers) as multiples of a power of two each; None where they are not, or not small enough."""
    exponents = np.array([_exponent(column) for column in columns], dtype=np.int64)
    with np.errstate(over="ignore", invalid="ignore"):
        numbers = np.ldexp(columns, -exponents[:, np.newaxis])
    if (np.abs(exponents) > _MOST_EXPONENT).any() or not (np.abs(numbers) < predicted_integers.LARGEST).all():
        return None
    if not columns.size or (np.signbit(columns) & (columns == 0.0)).any():  # zeros have signs
        return None
    integers = numbers.T.astype(np.int64)
    return predicted_integers.encode(integers, exponents, mass)


def _as_integers(columns: NDArray[np.float64]) -> bytes | None:
    """Columns (width, numbers) as multiples of a power of two each; None where they are not, or not small enough."""
    exponents, kinds, parts = [], [], []
    for column in columns:
        exponent = _exponent(column)
        with np.errstate(over="ignore"):
            integers = np.ldexp(column, -exponent)
        if abs(exponent) > _MOST_EXPONENT or not (np.abs(integers) < 2.0**31).all():
            return None
        ways = _differences(integers.astype(np.int64))
        kind, part = min(ways, key=lambda way: float(np.log2(1.0 + way[1]).sum()))
        exponents.append(exponent)
        kinds.append(kind)
        parts.append(part)
    content = np.array(exponents, "<i2").tobytes() + np.array(kinds, np.uint8).tobytes()
    content += _by_place(np.array(parts, "<u4"))
    same = _from_integers(content, len(columns), columns.size).tobytes() == columns.tobytes()  # zeros have signs
    return content if same else None


def _as_decimals(columns: NDArray[np.float64]) -> bytes | None:
    """Columns (width, numbers) as integers over a power of ten, and how far each number is from that.

    None where one is too large, or fewer than half are within rounding of decimals, as middles between decimals are.
    """
    if not np.isfinite(columns).all():
        return None
    for decimals in range(1, _MOST_DECIMALS + 1):
        with np.errstate(over="ignore"):
            numbers = np.rint(columns * 10.0**decimals) + 0.0
        integers = _as_integers(numbers)
        if integers is None:
            return None
        away = _places(columns) - _places(numbers / 10.0**decimals)
        if np.mean(np.abs(away) <= 1) >= _LEAST_DECIMALS:
            content = bytes([decimals]) + _by_place(((away << 1) ^ (away >> 63)).astype("<u8")) + integers
            same = (
                _from_decimals(content, len(columns), columns.size).tobytes() == columns.tobytes()
            )  # zeros have signs
            return content if same else None
    return None


def _from_decimals(content: bytes, width: int, count: int) -> NDArray[np.float64]:
    if not 1 <= content[0] <= _MOST_DECIMALS:
        raise ValueError(f"{content[0]} decimals")
    unsigned = _from_places(content[1 : 1 + 8 * count], np.dtype("<u8"), count).reshape(width, -1)
    away = (unsigned >> np.uint64(1)).astype(np.int64) ^ -(unsigned & np.uint64(1)).astype(np.int64)
    numbers = _from_integers(content[1 + 8 * count :], width, count) / 10.0 ** content[0]
    places = _places(numbers) + away
    return np.where(places < 0, _LOWEST - places, places).view(np.float64)


def _places(numbers: NDArray[np.float64]) -> NDArray[np.int64]:
    """Of numbers among all of double precision: neighbours differ by one."""
    bits = np.ascontiguousarray(numbers).view(np.int64)
    return np.where(bits < 0, _LOWEST - bits, bits)


def _exponent(column: NDArray[np.float64]) -> int:
    """Of the largest power of two that divides all numbers."""
    mantissas, exponents = np.frexp(column[column != 0.0])
    if not len(mantissas) or not np.isfinite(mantissas).all():
        return 0
    odd = np.ldexp(mantissas, 53).astype(np.int64)
    return int((exponents - 53 + np.log2((odd & -odd).astype(np.float64)).astype(np.int64)).min())


def _differences(integers: NDArray[np.int64]) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """0 and the integers, 1 and 2 and their differences where these fit; without signs, as 0, -1, 1, -2, ..."""
    for kind in range(_MOST_DIFFERENCES + 1):
        unsigned = (integers << 1) ^ (integers >> 63)
        if kind == 0 or (unsigned < 2**32).all():
            yield kind, unsigned
        integers = np.diff(integers, prepend=0)


def _from_integers(content: bytes, width: int, count: int) -> NDArray[np.float64]:
    exponents, kinds = np.frombuffer(content, "<i2", width), np.frombuffer(content, np.uint8, width, 2 * width)
    if (kinds > _MOST_DIFFERENCES).any():
        raise ValueError("differences of a high order")
    unsigned = _from_places(content[3 * width :], np.dtype("<u4"), count).astype(np.int64).reshape(width, -1)
    integers = (unsigned >> 1) ^ -(unsigned & 1)
    for kind in range(_MOST_DIFFERENCES):
        integers[kinds > kind] = np.cumsum(integers[kinds > kind], axis=1)
    with np.errstate(over="ignore", under="ignore"):  # infinities are refused where arrays are read
        return np.asarray(np.ldexp(integers.astype(np.float64), exponents.astype(np.int64)[:, np.newaxis]))

"""Integers in files as differences from predictions: what is left over is small, and stored in the bits that it needs.

Rows are the functions of a column's basis, the last of them its codes; columns are functions. Of each function, every
number is predicted by earlier ones, in one of four ways: by 0, by the number before, by the line through the two
before, or, at the codes, by the cubic polynomial through the four before. A polynomial is one of the cumulated mass of
the codes: curves that are smooth in ranks are predicted to the last digits.

What is left over, as 0, -1, 1, -2, ..., is stored as its number of bits, a byte, which is compressed, and its bits
without the first, which are not. Predictions are sums of products, one after another and rounded to integers: they are
the same on every machine.
"""

from __future__ import annotations

import bz2
import struct
import zlib
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ahofm.columns.basis import Floats

Integers: TypeAlias = NDArray[np.int64]

LARGEST = 2.0**44
"""Integers are below it."""

_BEFORE, _CUBIC = 4, 3
"""Points of a polynomial, and the number of that way; ways 0, 1 and 2 are differences of that order."""

_LEAST_SAVED = 32
"""Bits per code that the polynomial has to save: sums of it take time."""

_MOST_BITS = 50
_HEAD = "<BI"
"""Compression of the bytes, and how many they are then."""


def encode(numbers: Integers, exponents: NDArray[np.int64], mass: Floats | None) -> bytes:
    """Bytes of integers (rows, width) and the exponents (width,) of the powers of two that they are multiples of."""
    left_over = [numbers]
    for _ in range(2):
        left_over.append(np.diff(left_over[-1], axis=0, prepend=0))
    if mass is not None:
        n = len(mass)
        codes = numbers[-n:] - _predictions(numbers[-n:].astype(np.float64), _weights(mass)).astype(np.int64)
        left_over.append(np.vstack([left_over[1][:-n], codes]))
    unsigned = [(way << 1) ^ (way >> 63) for way in left_over]
    bits = np.array([_bit_lengths(way).sum(axis=0) for way in unsigned])
    if mass is not None and (bits[:_CUBIC].min(axis=0) - bits.min(axis=0)).sum() < _LEAST_SAVED * len(mass):
        bits = bits[:_CUBIC]
    kinds = np.argmin(bits, axis=0)
    chosen = np.take_along_axis(np.array(unsigned), kinds[np.newaxis, np.newaxis], axis=0)[0].T.ravel()
    lengths = _bit_lengths(chosen)
    content = exponents.astype("<i2").tobytes() + kinds.astype(np.uint8).tobytes()
    content += lengths.astype(np.uint8).tobytes()
    ways = zlib.compress(content, 9), bz2.compress(content)
    which = int(len(ways[1]) < len(ways[0]))
    return struct.pack(_HEAD, which, len(ways[which])) + ways[which] + _packed_bits(chosen, lengths)


def size_of_content(count: int, width: int) -> int:
    """Bytes that are compressed."""
    return 3 * width + count


def decode(data: bytes, shape: tuple[int, int], mass: Floats | None) -> Floats:
    """Numbers (rows, width): integers times powers of two. Raises ValueError where :func:`encode` has not made them."""
    rows, width = shape
    which, length = struct.unpack_from(_HEAD, data)
    start = struct.calcsize(_HEAD)
    stream, size = data[start : start + length], size_of_content(rows * width, width)
    if which > 1 or len(stream) < length:
        raise ValueError(f"compression {which}, {length} bytes of {len(data)}")
    inflater = bz2.BZ2Decompressor() if which else zlib.decompressobj()
    try:
        content = inflater.decompress(stream, size + 1)
    except (OSError, zlib.error) as error:
        raise ValueError(str(error)) from error
    if len(content) != size or not inflater.eof or inflater.unused_data:
        raise ValueError(f"its content is not the {size} bytes of shape {shape}")
    exponents, kinds = np.frombuffer(content, "<i2", width), np.frombuffer(content, np.uint8, width, 2 * width)
    lengths = np.frombuffer(content, np.uint8, rows * width, 3 * width)
    cubic = kinds == _CUBIC
    if (kinds > _CUBIC).any() or (lengths > _MOST_BITS).any():
        raise ValueError("differences of a high order, or large ones")
    if mass is None and cubic.any():
        raise ValueError("its codes have no mass")
    unsigned = _unpacked_bits(data[start + length :], lengths).reshape(width, rows)
    numbers = ((unsigned >> 1) ^ -(unsigned & 1)).T.copy()
    for order in (1, 2):
        summed = (kinds >= order) & ~cubic
        numbers[:, summed] = np.cumsum(numbers[:, summed], axis=0)
    if mass is not None and cubic.any():
        n = len(mass)
        numbers[:-n, cubic] = np.cumsum(numbers[:-n, cubic], axis=0)
        numbers[-n:, cubic] = _cubic_sums(numbers[-n:, cubic], _weights(mass))
    with np.errstate(over="ignore", under="ignore"):  # infinities are refused where arrays are read
        return np.ldexp(numbers.astype(np.float64), exponents.astype(np.int64))


def _weights(mass: Floats) -> Floats:
    """Of the numbers one, two, ... before in the polynomial through them: (codes, 4), of the first codes fewer."""
    with np.errstate(all="ignore"):
        place = np.cumsum(mass) - 0.5 * mass
        weights = np.zeros((len(mass), _BEFORE))
        for count in range(1, _BEFORE + 1):
            rows = np.arange(count, len(mass) if count == _BEFORE else min(count + 1, len(mass)))
            for a in range(count):
                weight = np.ones(len(rows))
                for b in range(count):
                    if a != b:
                        weight = weight * (
                            (place[rows] - place[rows - 1 - b]) / (place[rows - 1 - a] - place[rows - 1 - b])
                        )
                weights[rows, a] = weight
    weights[~np.isfinite(weights).all(axis=1)] = (1.0, *[0.0] * (_BEFORE - 1))
    return weights


def _predictions(numbers: Floats, weights: Floats) -> Floats:
    """Of all rows (codes, width) by those before."""
    padded = np.vstack([np.zeros((_BEFORE, numbers.shape[1])), numbers])
    before = [padded[_BEFORE - 1 - k : -1 - k] for k in range(_BEFORE)]
    total, part = np.empty_like(numbers), np.empty_like(numbers)
    with np.errstate(all="ignore"):
        _predict(list(weights.T[:, :, np.newaxis]), before, total, part)
    return total


def _predict(weights: Sequence[Any], before: Sequence[Floats], total: Floats, part: Floats) -> None:
    """Sums of products in the order of the points: a fused or a reordered sum would have other digits."""
    np.multiply(before[0], weights[0], out=total)
    for k in range(1, _BEFORE):
        np.multiply(before[k], weights[k], out=part)
        np.add(total, part, out=total)
    np.rint(total, out=total)
    np.fmin(total, LARGEST, out=total)  # also of what is not a number
    np.fmax(total, -LARGEST, out=total)


def _cubic_sums(left_over: Integers, weights: Floats) -> Integers:
    """Undo the subtraction of :func:`_predictions`, row by row."""
    found = np.zeros((_BEFORE + len(left_over), left_over.shape[1]))
    rows, part = list(found), np.empty(left_over.shape[1])
    with np.errstate(all="ignore"):
        for i, (weight, rest) in enumerate(zip(weights.tolist(), left_over.astype(np.float64), strict=True), _BEFORE):
            _predict(weight, rows[i - _BEFORE : i][::-1], rows[i], part)
            np.add(rows[i], rest, out=rows[i])
    return found[_BEFORE:].astype(np.int64)


def _bit_lengths(unsigned: Integers) -> NDArray[np.integer]:
    return np.frexp(unsigned.astype(np.float64))[1]


def _packed_bits(unsigned: Integers, lengths: NDArray[np.integer]) -> bytes:
    """Bits below the first one: the lowest of all numbers, then the second ones; longer numbers come first."""
    order = np.argsort(_MOST_BITS - lengths.astype(np.int8), kind="stable")
    ordered, bits = unsigned[order], [np.zeros(0, np.uint8)]
    for place, count in enumerate(_counts(lengths)):
        bits.append(((ordered[:count] >> place) & 1).astype(np.uint8))
    return np.packbits(np.concatenate(bits)).tobytes()


def _unpacked_bits(data: bytes, lengths: NDArray[np.uint8]) -> Integers:
    counts = _counts(lengths)
    if len(data) != -(-sum(counts) // 8):
        raise ValueError(f"{len(data)} bytes for {sum(counts)} bits")
    bits = np.unpackbits(np.frombuffer(data, np.uint8))
    order = np.argsort(_MOST_BITS - lengths.astype(np.int8), kind="stable")
    ordered = (np.int64(1) << lengths[order].astype(np.int64)) >> 1
    start = 0
    for place, count in enumerate(counts):
        ordered[:count] += bits[start : start + count].astype(np.int64) << place
        start += count
    out = np.empty_like(ordered)
    out[order] = ordered
    return out


def _counts(lengths: NDArray[np.integer]) -> list[int]:
    """How many numbers have a bit at the first place, the second, ..., below their first one."""
    of_length = np.bincount(lengths.astype(np.int64), minlength=2)
    return [int(count) for count in np.cumsum(of_length[::-1])[::-1][2:]]

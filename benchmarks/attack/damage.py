"""Ways to damage bytes, chosen by a random number generator."""

from __future__ import annotations

import json
import re

import numpy as np


def damaged(data: bytes, rng: np.random.Generator) -> bytes:
    """The same bytes, damaged in one of many ways."""
    ways = (_flip_one, _flip_one, _flip_some, _truncate, _insert, _remove, _swap, _repeat, _blank, _edit_text)
    return ways[rng.integers(len(ways))](data, rng)


def _flip_one(data: bytes, rng: np.random.Generator) -> bytes:
    return _flipped(data, rng, 1)


def _flip_some(data: bytes, rng: np.random.Generator) -> bytes:
    return _flipped(data, rng, int(rng.integers(2, 20)))


def _flipped(data: bytes, rng: np.random.Generator, count: int) -> bytes:
    """Half of the time near the beginning, where headers are."""
    changed = bytearray(data)
    end = len(data) if rng.random() < 0.5 else min(len(data), 2_000)
    for at in rng.integers(end, size=count):
        changed[at] ^= 1 << rng.integers(8)
    return bytes(changed)


def _truncate(data: bytes, rng: np.random.Generator) -> bytes:
    return data[: rng.integers(len(data))]


def _insert(data: bytes, rng: np.random.Generator) -> bytes:
    at, more = rng.integers(len(data) + 1), rng.bytes(int(rng.integers(1, 64)))
    return data[:at] + more + data[at:]


def _remove(data: bytes, rng: np.random.Generator) -> bytes:
    at, length = rng.integers(len(data)), int(rng.integers(1, 64))
    return data[:at] + data[at + length :]


def _blocks(data: bytes, rng: np.random.Generator) -> tuple[int, int, int]:
    length = int(rng.integers(1, max(len(data) // 3, 2)))
    first = int(rng.integers(max(len(data) - 2 * length, 1)))
    return first, int(rng.integers(first + length, max(len(data) - length, first + length) + 1)), length


def _swap(data: bytes, rng: np.random.Generator) -> bytes:
    a, b, n = _blocks(data, rng)
    return data[:a] + data[b : b + n] + data[a + n : b] + data[a : a + n] + data[b + n :]


def _repeat(data: bytes, rng: np.random.Generator) -> bytes:
    a, b, n = _blocks(data, rng)
    return data[:b] + data[a : a + n] + data[b + n :]


def _blank(data: bytes, rng: np.random.Generator) -> bytes:
    at, length = int(rng.integers(len(data))), int(rng.integers(1, 512))
    length = min(length, len(data) - at)
    return data[:at] + bytes([rng.choice([0, 32, 255])]) * length + data[at + length :]


def _edit_text(data: bytes, rng: np.random.Generator) -> bytes:
    """A number or a word of the text in it, replaced by another of the same length or not."""
    found = list(re.finditer(rb'"[A-Za-z_][A-Za-z0-9_. ]*"|-?\d+\.?\d*', data))
    if not found:
        return _flip_one(data, rng)
    match = found[rng.integers(len(found))]
    others = [
        match[0],
        b"0",
        b"-1",
        b"1e999",
        b'"F32"',
        b'"I64"',
        b'"weight"',
        b"null",
        b"9" * len(match[0]),
        b'"\\u0000"',
    ]
    new = found[rng.integers(len(found))][0] if rng.random() < 0.5 else others[rng.integers(1, len(others))]
    return data[: match.start()] + new + data[match.end() :]


def edited_header(data: bytes, rng: np.random.Generator) -> bytes:
    """A safetensors file whose header is another one, and well formed: what only a checksum finds."""
    end = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:end])
    metadata, names = header["__metadata__"], [name for name in header if name != "__metadata__"]
    one, other = (names[at] for at in rng.integers(len(names), size=2))
    way = int(rng.integers(7))
    if way == 0:
        header[one], header[other] = header[other], header[one]
    elif way == 1:
        places = header[one]["data_offsets"], header[other]["data_offsets"]
        header[other]["data_offsets"], header[one]["data_offsets"] = places
    elif way == 2:
        header[one]["dtype"] = str(rng.choice(["F64", "I64", "U64", "F32", "U8", "BF16", "BOOL"]))
    elif way == 3:
        header[one]["shape"] = [*header[one]["shape"], 1] if rng.random() < 0.5 else header[one]["shape"][::-1]
    elif way == 4:
        header[one + str(rng.choice(["", "0", "x"]))] = header.pop(one)
    elif way == 5:
        key = str(rng.choice(sorted(key for key, text in metadata.items() if text)))
        metadata[key] = damaged(metadata[key].encode(), rng).decode("utf-8", "replace")
    else:
        metadata.pop(str(rng.choice(sorted(metadata))))
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + data[end:]

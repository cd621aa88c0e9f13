"""Markdown: tables, and texts that stay texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def markdown_table(rows: Sequence[Sequence[Any]]) -> list[str]:
    """Lines of a table whose first row is its head."""
    lines = ["| " + " | ".join(markdown_text(cell) for cell in row) + " |" for row in rows]
    return [lines[0], "|" + "---|" * len(rows[0]), *lines[1:]]


def markdown_text(value: Any) -> str:
    """On one line, and never markup: names may have any signs."""
    plain = " ".join(str(value).split())
    return "".join("\\" + sign if sign in r"\`*_[]<>|#" else "&amp;" if sign == "&" else sign for sign in plain)

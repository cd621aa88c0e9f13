"""What a notebook shows of results: tables, and small pictures as SVG. All names are escaped."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from ahofm.columns.basis import Floats
from ahofm.explain.arguments import training_of

if TYPE_CHECKING:
    from ahofm.explain.effects import Effect
    from ahofm.explain.summary import Summary

_COLUMNS = 20
_WIDE, _HIGH = 420.0, 180.0


def table_html(rows: Sequence[Sequence[Any]]) -> str:
    """A table whose first row is its head."""
    head = "".join(f"<th>{escape(str(cell))}</th>" for cell in rows[0])
    body = "".join("<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows[1:])
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def fitted_html(estimator: Any) -> str:
    """A fitted estimator: how it predicts rows that were not fitted, and what each column carries."""
    model = estimator.model_
    shares = estimator.feature_importances_
    order = np.argsort(-shares, kind="stable")
    training = training_of(estimator)
    n_rows = None if training is None else training.n_rows
    score = "" if model.validated is None else f"<p>{escape(model.validated.told(n_rows))}</p>"
    rows = [["column", "importance"], *([model.encoder.names[j], f"{shares[j]:.1%}"] for j in order[:_COLUMNS])]
    more = f"<p>and {len(order) - _COLUMNS} more</p>" if len(order) > _COLUMNS else ""
    return f"{score}{table_html(rows)}{more}"


def summary_html(said: Summary) -> str:
    """A summary: its first lines, its columns, its orders and what to be careful about."""
    lines = str(said).split("\n\n")
    parts = [f"<p>{escape(line)}</p>" for line in lines[0].split("\n")]
    parts.append(table_html(said.column_table()))
    parts += [f"<p>{escape(line)}</p>" for line in lines[-1].split("\n")]
    return "".join(parts)


def effect_html(found: Effect) -> str:
    """A curve with its band, a surface as cells, or a table of levels."""
    title = f"<p>{escape(' × '.join(found.columns))}</p>"
    if len(found.columns) == 1 and found.grid[0].dtype != object:
        return title + _curve(found)
    if len(found.columns) == 1:
        band = [] if found.low is None else ["low", "high"]
        ends: list[Floats] = [] if found.low is None or found.high is None else [found.low, found.high]
        order = np.argsort(-found.value, kind="stable")
        kept = order if len(order) <= 2 * _COLUMNS else np.concatenate([order[:_COLUMNS], order[-_COLUMNS:]])
        rows: list[list[Any]] = [[found.columns[0], "effect", *band]]
        rows += [[found.grid[0][k], f"{found.value[k]:.4g}", *(f"{end[k]:.4g}" for end in ends)] for k in kept]
        return title + table_html(rows)
    return title + (_surface(found) if len(found.columns) == 2 else "")


def _frame(body: str, low: float, high: float) -> str:
    texts = "".join(
        f'<text x="{x}" y="{y}" font-size="11" fill="currentColor">{value:.4g}</text>'
        for x, y, value in ((0, 12, high), (0, _HIGH, low))
    )
    return (
        f'<svg viewBox="0 0 {_WIDE:g} {_HIGH + 4:g}" width="{_WIDE:g}" role="img" xmlns="http://www.w3.org/2000/svg">'
        f"{body}{texts}</svg>"
    )


def _curve(found: Effect) -> str:
    x, parts = np.asarray(found.grid[0], dtype=np.float64), [found.value, found.low, found.high]
    shown = np.concatenate([part.ravel() for part in parts if part is not None])
    low, high = float(shown.min()), float(shown.max())
    across = 45.0 + (_WIDE - 50.0) * (x - x.min()) / max(float(np.ptp(x)), np.finfo(float).tiny)

    def points(values: Floats, at: Floats = across) -> str:
        up = _HIGH - 6.0 - (_HIGH - 12.0) * (values - low) / max(high - low, np.finfo(float).tiny)
        return " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(at, up, strict=True))

    body = ""
    if found.low is not None and found.high is not None:
        outline = f"{points(found.low)} {points(found.high[::-1], across[::-1])}"
        body += f'<polygon points="{outline}" fill="#0072b2" fill-opacity="0.25"/>'
    body += f'<polyline points="{points(found.value)}" fill="none" stroke="#0072b2" stroke-width="2"/>'
    return _frame(body, low, high)


def _surface(found: Effect) -> str:
    rows, columns = found.value.shape
    reach = max(float(np.abs(found.value).max()), np.finfo(float).tiny)
    wide, high = (_WIDE - 50.0) / rows, (_HIGH - 12.0) / columns
    cells = [
        f'<rect x="{45 + i * wide:.1f}" y="{_HIGH - 6 - (k + 1) * high:.1f}" width="{wide + 0.3:.1f}" '
        f'height="{high + 0.3:.1f}" fill="{"#b22814" if value > 0 else "#0555a0"}" '
        f'fill-opacity="{abs(value) / reach:.2f}"/>'
        for (i, k), value in np.ndenumerate(found.value)
    ]
    return _frame("".join(cells), -reach, reach)

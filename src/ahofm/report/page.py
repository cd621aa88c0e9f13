"""The report in its forms: a page, the same page inside a notebook, JSON and Markdown."""

from __future__ import annotations

import html
import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from numpy.typing import ArrayLike

from ahofm.explain.arguments import Fitted
from ahofm.export.packed import EVALUATOR
from ahofm.report.content import content, shown
from ahofm.report.held_out import held_out
from ahofm.report.markdown import markdown
from ahofm.writing import replacing

_ASSETS = Path(__file__).parent / "assets"
_PROGRAM = ("interval", "format", "charts", "effects", "pairs", "diagnostics", "page")


@dataclass(frozen=True)
class Report:
    """What a report says, and its forms; a notebook shows it.

    Attributes
    ----------
    content : dict
        Everything that is shown, and the model as the page evaluates it; ``report/schema.json`` describes it.
    """

    content: dict[str, Any]

    def to_html(self) -> str:
        """Make a page that is one file and needs no network.

        Returns
        -------
        str
            HTML.
        """
        parts = {
            "title": html.escape(self.content["title"]),
            "style": _asset("page.css"),
            "body": _asset("body.html"),
            "program": _program(),
            "data": _embedded(self.content),
        }
        return _filled("page.html", parts)

    def to_json(self) -> str:
        """Make a JSON text of everything that the page shows.

        Returns
        -------
        str
            As ``report/schema.json`` describes it.
        """
        return json.dumps(shown(self.content), allow_nan=False, indent=1, ensure_ascii=False)

    def to_markdown(self) -> str:
        """Make a text with tables, for a terminal, a wiki or a review.

        Returns
        -------
        str
            Markdown.
        """
        return markdown(self.content)

    def _repr_html_(self) -> str:
        """The page, in a shadow root: its style and the notebook's do not touch each other."""
        markup = f"<style>{_asset('page.css')}</style>{_asset('body.html')}"
        parts = {
            "id": f"ahofm-{uuid4().hex}",
            "program": _program(),
            "markup": _embedded(markup),
            "data": _embedded(self.content),
        }
        return _filled("inline.html", parts)

    def __repr__(self) -> str:
        """What it is, and how to see it."""
        return f"<Report {self.content['title']!r}: a notebook shows it; report(path) writes it to a file>"


def report(
    fitted: Fitted,
    *,
    X: Any = None,
    y: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    offset: ArrayLike | None = None,
    title: str | None = None,
    target: str = "the target",
    command: str | None = None,
) -> Report:
    """Make a report of a model.

    Parameters
    ----------
    fitted : estimator or model
        An estimator that has its training rows shows more: bands, diagnostics, rows to start from.
    X : table of n rows, optional
        Rows that were not fitted: their scores come first, and diagnostics are those of these rows, not of training.
    y : array of shape (n,), optional
        Their targets, as in ``fit``; needed with ``X``. Of a model that is no estimator: class numbers.
    sample_weight, offset : arrays of shape (n,), optional
        Their weights and offsets, as in ``fit``.
    title : str, optional
        Headline.
    target : str, default "the target"
        What is predicted, for axes and headings.
    command : str, optional
        With which the model was made, to be shown.

    Returns
    -------
    Report
        Shown by a notebook; ``to_html``, ``to_json`` and ``to_markdown`` make texts of it.
    """
    rows = held_out(fitted, X, y, sample_weight, offset)
    return Report(content(fitted, title or f"What the model says about {target}", target, command, rows))


def page(fitted: Fitted, **options: Any) -> str:
    """Make a page that shows a model.

    Parameters
    ----------
    fitted : estimator or model
        An estimator that has its training rows shows more.
    **options
        Settings of :func:`report`, such as ``title``, ``target``, ``X`` and ``y``.

    Returns
    -------
    str
        HTML.
    """
    return report(fitted, **options).to_html()


def write(fitted: Fitted, path: str | os.PathLike[str], **options: Any) -> Path:
    """Write a report to a file, which is there in full or not at all.

    Parameters
    ----------
    fitted : estimator or model
        An estimator that has its training rows shows more: bands, diagnostics, rows to start from.
    path : str or path
        In a folder that exists. What ends in .json or .md is such a file; any other name is an HTML page.
    **options
        Settings of :func:`report`, such as ``title``, ``target``, ``X`` and ``y``.

    Returns
    -------
    Path
        Where the report is.

    Examples
    --------
    >>> import tempfile
    >>> from ahofm.report import write
    >>> write(model, tempfile.mkdtemp() + "/report.html", target="yield").name
    'report.html'
    """
    target = Path(path)
    if target.is_dir() or not target.parent.is_dir():
        raise ValueError(f"path must be a file in a folder that exists, got {str(path)!r}")
    made = report(fitted, **options)
    forms = {".json": made.to_json, ".md": made.to_markdown}
    text = forms.get(target.suffix.lower(), made.to_html)()
    with replacing(target) as draft:
        draft.write_text(text, encoding="utf-8")
    return target


def _asset(name: str) -> str:
    return (_ASSETS / name).read_text(encoding="utf-8")


def _program() -> str:
    return "\n".join([EVALUATOR.read_text(encoding="utf-8"), *(_asset(f"{name}.js") for name in _PROGRAM)])


def _filled(name: str, parts: dict[str, str]) -> str:
    return re.sub(r"\{\{(\w+)\}\}", lambda mark: parts[mark[1]], _asset(name))  # one pass: marks in names stay names


def _embedded(value: Any) -> str:
    """JSON that is text to HTML whatever the names in it: ``</script`` ends a script, ``<!--<script>`` never does."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))  # ASCII, so without U+2028 and U+2029
    for sign in "<>&":  # several times as fast as to translate
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text

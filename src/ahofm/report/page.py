"""The page: content, style and program in one file."""

from __future__ import annotations

import html
import json
import os
import re
from pathlib import Path
from typing import Any

from ahofm.explain.arguments import Fitted
from ahofm.export.packed import EVALUATOR
from ahofm.report.content import content
from ahofm.writing import replacing

_HERE = Path(__file__).parent


def page(fitted: Fitted, *, title: str | None = None, target: str = "the target") -> str:
    """Make a page that shows a model.

    Parameters
    ----------
    fitted : estimator or model
        An estimator that has its training rows shows more: bands, diagnostics, rows to start from.
    title : str, optional
        Headline.
    target : str, default "the target"
        What is predicted, for axes and headings.

    Returns
    -------
    str
        HTML.
    """
    headline = title or f"What the model says about {target}"
    parts = {
        "title": html.escape(headline),
        "style": (_HERE / "page.css").read_text(encoding="utf-8"),
        "program": EVALUATOR.read_text(encoding="utf-8") + (_HERE / "page.js").read_text(encoding="utf-8"),
        "data": _embedded(content(fitted, headline, target)),
    }
    text = (_HERE / "page.html").read_text(encoding="utf-8")
    return re.sub(r"\{\{(\w+)\}\}", lambda mark: parts[mark[1]], text)  # one pass: marks in names stay names


def _embedded(value: Any) -> str:
    """JSON that is text to HTML whatever the names in it: ``</script`` ends a script, ``<!--<script>`` never does."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))  # ASCII, so without U+2028 and U+2029
    return text.translate({ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&"})


def write(fitted: Fitted, path: str | os.PathLike[str], **options: Any) -> Path:
    """Write the page to a file, which is there in full or not at all.

    Parameters
    ----------
    fitted : estimator or model
        An estimator that has its training rows shows more: bands, diagnostics, rows to start from.
    path : str or path
        Of the HTML file, in a folder that exists.
    **options
        Settings of :func:`page`: ``title`` and ``target``.

    Returns
    -------
    Path
        Where the page is.

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
    text = page(fitted, **options)
    with replacing(target) as draft:
        draft.write_text(text, encoding="utf-8")
    return target

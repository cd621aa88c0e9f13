"""The page: content, style and program in one file."""

from __future__ import annotations

import html
import json
import os
import tempfile
from pathlib import Path
from typing import Any

from ahofm.explain.asked import Fitted
from ahofm.report.content import content

_HERE = Path(__file__).parent


def page(fitted: Fitted, *, title: str | None = None, target: str = "the target") -> str:
    """The page as text.

    Parameters
    ----------
    fitted : estimator or model
        An estimator that remembers its rows of training shows more: bands, diagnostics, rows to start from.
    title : str, optional
    target : str
        What is predicted, for axes and headings.
    """
    headline = title or f"What the model says about {target}"
    data = json.dumps(content(fitted, headline, target), allow_nan=False, separators=(",", ":"))
    parts = {
        "{{title}}": html.escape(headline),
        "{{style}}": (_HERE / "page.css").read_text(encoding="utf-8"),
        "{{program}}": (_HERE / "page.js").read_text(encoding="utf-8"),
        "{{data}}": data.replace("</", "<\\/"),  # nothing in a name ends the script
    }
    text = (_HERE / "page.html").read_text(encoding="utf-8")
    for mark, part in parts.items():
        text = text.replace(mark, part, 1)
    return text


def write(fitted: Fitted, path: str | os.PathLike[str], **asked: Any) -> Path:
    """Write the page to a file, which is there in full or not at all; where it is.

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
    text = page(fitted, **asked)
    with tempfile.NamedTemporaryFile("w", dir=target.parent, suffix=".html", delete=False, encoding="utf-8") as file:
        file.write(text)
    Path(file.name).chmod(0o644)
    return Path(file.name).replace(target)

"""A hook of MkDocs: pages of the code that the documents name, and links to its lines.

Documents name code as `src/path.py` `name`, `Class.method`: the names are of that file.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
NAMED = re.compile(r"`(src/[\w./]+\.(?:py|h|cpp))`((?:,?\s+`[\w.]+`)*)")


def on_files(files: Files, config: Any) -> Files:
    """Add a page for every file that is named."""
    pages = [file for file in files if file.src_uri.endswith(".md")]
    named = {path for page in pages for path, _ in NAMED.findall(page.content_string)}
    for path in sorted(named):
        language = "py" if path.endswith(".py") else "cpp"
        content = f"---\nsearch: {{ exclude: true }}\nhide: [toc, navigation]\n---\n\n# {path}\n\n"
        content += f'`````` {{ .{language} linenums="1" }}\n{(ROOT / path).read_text()}``````\n'
        files.append(File.generated(config, _page(path), content=content))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Turn names into links."""
    del config, files
    here = Path(page.file.src_uri).parent

    def link(found: re.Match[str]) -> str:
        path, names = found.groups()
        target = Path(os.path.relpath(_page(path), here)).as_posix()
        lines = (ROOT / path).read_text().splitlines()

        def name_link(name: re.Match[str]) -> str:
            return f"[`{name[1]}`]({target}#__codelineno-0-{line_of(name[1], lines)})"

        return f"[`{path}`]({target})" + re.sub(r"`([\w.]+)`", name_link, names)

    return markdown if page.file.src_uri.startswith("code/") else NAMED.sub(link, markdown)


def line_of(name: str, lines: list[str]) -> int:
    """Where a function, class, method or constant begins; 1 for the first line."""
    first = 0
    *owner, last = name.split(".")
    for word in (*owner, last):
        begins = re.compile(rf"^\s*(?:def|class|struct) {word}\b|^{word}\b.*=|^(?!\s*(?:return|//)).*\w\s+{word}\(")
        first = next((at for at in range(first, len(lines)) if begins.search(lines[at])), None)
        if first is None:
            raise ValueError(f"{name} is not defined where a document says; name the file that defines it")
    return first + 1


def _page(path: str) -> str:
    return f"code/{path}.md"

"""Where the command begins: what goes wrong becomes one line and an exit code, not a traceback."""

from __future__ import annotations

import sys


class CommandError(Exception):
    """What the person at the keyboard can put right: one line, with the remedy."""


def main() -> int:
    """Run the command; the exit code."""
    try:
        import pyarrow  # noqa: F401, PLC0415 - said better than a traceback would
        import typer  # noqa: F401, PLC0415 - likewise
    except ImportError as error:
        print(f"ahofm: the command needs {error.name}: pip install 'ahofm[cli]'", file=sys.stderr)
        return 2
    from ahofm.cli.app import run  # noqa: PLC0415 - after it is known that it can be

    return run(sys.argv[1:])

"""Where the command begins: what goes wrong becomes one line and an exit code, not a traceback."""

from __future__ import annotations

import sys


class CommandError(Exception):
    """What the person at the keyboard can put right: one line, with the remedy."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C, with what has been written by then."""


INTERRUPTED = 130
"""The exit code of shells for it."""


def main() -> int:
    """Run the command; the exit code."""
    try:
        return _main()
    except KeyboardInterrupt:  # before, or after, a command is run
        print("interrupted: nothing was written", file=sys.stderr)
        return INTERRUPTED


def _main() -> int:
    try:
        import pyarrow  # noqa: F401, PLC0415 - said better than a traceback would
        import typer  # noqa: F401, PLC0415 - likewise
    except ImportError as error:
        print(f"ahofm: the command needs {error.name}: pip install 'ahofm[cli]'", file=sys.stderr)
        return 2
    from ahofm.cli.app import run  # noqa: PLC0415 - after it is known that it can be

    return run(sys.argv[1:])

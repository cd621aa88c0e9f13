"""The command: its options in common, how it ends, and how it shows things."""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from typing import Any

import typer
from rich.console import Console
from rich.table import Table

from ahofm.cli.start import CommandError
from ahofm.model import ModelFileError

app = typer.Typer(
    no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="markdown"
)
out, err = Console(), Console(stderr=True)


def run(arguments: Sequence[str]) -> int:
    """Run a command; 0, or 2 with one line about what is wrong, or 130 when interrupted before there was a result."""
    import ahofm.cli.commands  # noqa: F401, PLC0415 - they register themselves

    debug = "--debug" in arguments
    try:
        app(args=[word for word in arguments if word != "--debug"], standalone_mode=False)
    except typer.Exit as stop:
        return int(stop.exit_code)
    except (KeyboardInterrupt, typer.Abort):
        err.print("interrupted: nothing was written")
        return 130
    except Exception as error:
        if debug:
            traceback.print_exc()
        known = (CommandError, ModelFileError, ValueError, TypeError, OSError)
        usage = getattr(error, "format_message", None)
        if usage is None and not isinstance(error, known):
            err.print(f"ahofm: {type(error).__name__}: {error} (a fault of ahofm; --debug shows where)", markup=False)
            return 1
        err.print(f"ahofm: {usage() if usage else error}", markup=False, highlight=False, soft_wrap=True)
        return 2
    return 0


@app.callback()
def about() -> None:
    """Generalised additive models with all interactions: fit, predict, explain.

    Tables are CSV (also .gz), Parquet, Feather or Arrow, by their extension. `--debug` shows where an error came from.
    """


def cell(value: Any) -> str:
    """A value in a table."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def show(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table."""
    out.print(f"\n{title}")
    table = Table(*header)
    for row in rows:
        table.add_row(*row)
    out.print(table)

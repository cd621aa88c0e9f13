"""The command: its options in common, how it ends, and how it shows things."""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from importlib.metadata import version
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from ahofm.cli.errors import INTERRUPTED, CommandError, Interrupted
from ahofm.model import ModelFileError

app = typer.Typer(
    no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="markdown"
)
# Plain text: names of columns may have brackets and colons.
out, err = (Console(stderr=stderr, markup=False, emoji=False, highlight=False) for stderr in (False, True))

Missing = Annotated[
    list[str] | None, typer.Option("--missing", help="A cell that means missing, e.g. '?'. May be repeated.")
]
Sep = Annotated[str | None, typer.Option("--sep", help="What separates cells of text files, e.g. ';'.")]
Decimal = Annotated[str, typer.Option("--decimal", help="The decimal sign of text files: . or ,")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object instead of tables.")]


def run(arguments: Sequence[str]) -> int:
    """Run a command: 0, or 2 and a line about what is wrong, or 130 and one about what is there after an interrupt."""
    import ahofm.cli.fit_command  # isort: skip # noqa: PLC0415 - commands register themselves, in the order of the help
    import ahofm.cli.commands  # noqa: PLC0415
    import ahofm.cli.export_command  # noqa: F401, PLC0415

    debug = "--debug" in arguments
    try:  # not by app(...), which takes an interrupt for an exit code of its own
        command = typer.main.get_command(app)
        with command.make_context("ahofm", [word for word in arguments if word != "--debug"]) as context:
            command.invoke(context)
    except typer.Exit as stop:
        return int(stop.exit_code)
    except (KeyboardInterrupt, typer.Abort) as stop:
        kept = str(stop) if isinstance(stop, Interrupted) else "nothing was written"
        err.print(f"interrupted: {kept}", soft_wrap=True)
        return INTERRUPTED
    except Exception as error:
        if debug:
            traceback.print_exc()
        known = (CommandError, ModelFileError, ValueError, TypeError, OSError)
        usage = getattr(error, "format_message", None)
        if usage is None and not isinstance(error, known):
            said = f"{type(error).__name__}: {error} (a fault of ahofm; --debug shows where)"
            err.print(f"ahofm: {said}", soft_wrap=True)
            return 1
        err.print(f"ahofm: {usage() if usage else error}", soft_wrap=True)
        return 2
    return 0


def _version(wanted: bool) -> None:
    if wanted:
        print(f"ahofm {version('ahofm')}")
        raise typer.Exit


@app.callback()
def about(
    wanted: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Generalised additive models with all interactions: fit, predict, explain.

    Tables are CSV (also .gz), Excel, Parquet, Feather or Arrow, by their extension. `--debug` traces errors.
    """


def names_in(given: Sequence[str] | None, known: Sequence[str] = ()) -> list[str]:
    """Names of an option that may be repeated, or list several after commas; a known name may have commas itself."""
    found: list[str] = []
    for text in given or ():
        found += [text] if text in known else [name.strip() for name in text.split(",") if name.strip()]
    return list(dict.fromkeys(found))


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

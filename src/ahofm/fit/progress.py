"""A progress bar for a fit, as a callback."""

from __future__ import annotations

from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

from ahofm.model import Record


class Progress:
    """Shows iterations, the objective and the time; used as ``with Progress(max_iter) as callback``."""

    def __init__(self, max_iter: int | None, console: Console | None = None) -> None:
        self._bar = Bar(
            TextColumn("fit"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("objective {task.fields[objective]}"),
            TimeElapsedColumn(),
            console=console or Console(stderr=True),
        )
        self._task = self._bar.add_task("fit", total=max_iter, objective="-")

    def __enter__(self) -> Progress:
        """Start drawing."""
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, where: TracebackType | None
    ) -> None:
        """Leave the last state on the screen."""
        self._bar.stop()

    def __call__(self, record: Record) -> None:
        """Draw one record."""
        text = f"{record.objective:.6g}"
        if record.validation is not None:
            text += f", validation {record.validation:.6g}"
        self._bar.update(self._task, completed=record.iteration, objective=text)

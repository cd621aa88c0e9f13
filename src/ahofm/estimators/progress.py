"""A progress bar for a fit, as a callback."""

from __future__ import annotations

from datetime import timedelta
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

from ahofm.model import Record


class Progress:
    """Shows how far a fit is, the objective, the time and what is left of it; ``with Progress(max_iter) as callback``.

    What is left can be told where a fit knows what it is going to do; otherwise the bar counts iterations.
    """

    def __init__(self, max_iter: int | None, console: Console | None = None) -> None:
        self._bar = Bar(
            TextColumn("fit"),
            BarColumn(),
            TextColumn("{task.fields[iteration]}"),
            TextColumn("objective {task.fields[objective]}"),
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]}"),
            console=console or Console(stderr=True),
        )
        self._max_iter = max_iter
        self._task = self._bar.add_task("fit", total=None, iteration="0", objective="-", left="")

    def __enter__(self) -> Progress:
        """Start drawing."""
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, where: TracebackType | None
    ) -> None:
        """Leave the last state on the screen; a fit that ended by itself is done, whatever was foreseen."""
        if kind is None:
            total = self._bar.tasks[0].total or 1.0
            self._bar.update(self._task, total=total, completed=total, left="done")
        self._bar.stop()

    def __call__(self, record: Record) -> None:
        """Draw one record."""
        text = f"{record.objective:.6g}"
        if record.validation is not None:
            text += f", validation {record.validation:.6g}"
        if record.fraction is None:
            total, completed, left = self._max_iter, float(record.iteration), ""
        else:
            total, completed, left = 1, record.fraction, _left(record.seconds, record.fraction)
        self._bar.update(
            self._task, total=total, completed=completed, iteration=str(record.iteration), objective=text, left=left
        )


def _left(seconds: float, fraction: float) -> str:
    """At the pace so far."""
    if not fraction > 0.02:
        return ""
    left = timedelta(seconds=round(seconds * (1.0 - fraction) / fraction))
    return f"about {left} left" if left else "nearly done"

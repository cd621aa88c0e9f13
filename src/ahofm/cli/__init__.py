"""The command: fit, predict, explain and report from the shell. Reads and writes files; all else is elsewhere."""

from ahofm.cli.errors import main

__all__ = ["main"]

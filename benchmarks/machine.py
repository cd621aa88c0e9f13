"""The machine a result was measured on, kept beside it."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from ahofm import _native

PACKAGES = ("ahofm", "numpy", "scipy", "scikit-learn")


def describe(packages: Sequence[str] = ()) -> dict[str, str]:
    """Processor, cores, memory, compiler, versions (of some more packages), commit."""
    facts = {
        "processor": _processor(),
        "cores": str(os.cpu_count()),
        "system": platform.platform(),
        "python": platform.python_version(),
        "compiler": _native.compiler(),
        "instruction_sets": " ".join(_native.instruction_sets()),
        "commit": commit(),
    }
    for package in (*PACKAGES, *packages):
        try:
            facts[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            facts[package] = "not installed"
    return facts


def r_version() -> str:
    """Of R and mgcv; empty where they are not installed."""
    if shutil.which("Rscript") is None:
        return ""
    ask = "cat(R.version.string, ', mgcv ', format(packageVersion('mgcv')), sep = '')"
    return subprocess.run(["Rscript", "-e", ask], capture_output=True, text=True, check=False).stdout


def commit() -> str:
    """Of the project, as it is checked out."""
    run = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    return run.stdout.strip() or "unknown"


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()

"""All experiments of the paper, and the peers: ``make paper``.

Every unit of work runs in a process of its own on one thread, and its results are written at once to
benchmarks/results/<experiment>.csv; a run that is stopped goes on where it was. ``make paper-docs`` turns the files
into tables and figures.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from benchmarks import machine
from benchmarks.data import FOLDER
from benchmarks.experiments import EXPERIMENTS
from benchmarks.experiments.plan import Experiment
from benchmarks.measure import CAP, apart
from benchmarks.store import Store
from benchmarks.table import RESULTS


def conduct(
    experiment: Experiment,
    folder: Path,
    data: Path | None = None,
    *,
    quick: bool,
    cap: float = CAP,
    wanted: Sequence[str] = (),
    retry: bool = False,
    again: bool = False,
) -> Store:
    """Run what an experiment still lacks; also what failed, or was measured at another commit, if asked to.

    ``wanted`` are parts of the names of units.
    """
    name, commit = experiment.name, machine.commit()
    store = Store(name, folder, experiment.packages)
    planned = [one for one in experiment.plan(quick) if all(part in str(one.unit) for part in wanted)]
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, auto_refresh=False) as bar:  # no thread of its own: processes are copied
        task = bar.add_task(name, total=len(planned))
        for one in planned:
            bar.update(task, description=f"{name}: {one.unit}", refresh=True)
            known = store.get(one.unit)
            old = again and known.get("commit") != commit
            if not known or old or (retry and known["status"].startswith("failed")):
                obstacle = one.obstacle(store, cap)
                work = partial(experiment.run, one.unit, data)
                found = {"status": obstacle} if obstacle else apart(work, cap)
                if not str(found["status"]).startswith("missing"):
                    store.add(one.unit, {**found, "commit": commit})
                if found["status"] != "done":
                    bar.console.print(f"{name}, {one.unit}: {found['status']}", markup=False)
            bar.advance(task)
    return store


def main() -> int:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--experiments", nargs="*", default=list(EXPERIMENTS), choices=list(EXPERIMENTS))
    parser.add_argument("--data-dir", type=Path, help=f"folder with the data sets; or set {FOLDER}")
    parser.add_argument("--quick", action="store_true", help="a small version, written to benchmarks/results/quick")
    parser.add_argument("--cap", type=float, default=CAP, help="seconds of processor time that a unit may take")
    parser.add_argument("--units", nargs="*", default=[], help="only units whose names have all of these in them")
    parser.add_argument("--again", action="store_true", help="run units again that were measured at another commit")
    parser.add_argument("--retry", action="store_true", help="run units again that failed")
    given = parser.parse_args()
    failed = 0
    for name in given.experiments:
        folder = RESULTS / "quick" if given.quick else RESULTS
        options = {"quick": given.quick, "cap": given.cap, "wanted": given.units, "retry": given.retry}
        options["again"] = given.again
        store = conduct(EXPERIMENTS[name], folder, given.data_dir, **options)
        failed += sum(found.get("status", "").startswith("failed") for _, found in store)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

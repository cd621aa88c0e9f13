"""Fill the tables of docs/benchmarks.md, between its marks, and draw its figures: ``make paper-docs``."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

from benchmarks.experiments import EXPERIMENTS
from benchmarks.pages import broad, figures, real, simulated
from benchmarks.pages.read import units
from benchmarks.table import RESULTS

DOCS = Path(__file__).parents[2] / "docs"


def tables(results: Path) -> dict[str, str]:
    """Every table, by the name of its mark; of experiments that have results."""
    found: dict[str, str] = {}
    have = {name: units(name, results) for name in EXPERIMENTS if (results / f"{name}.csv").exists()}
    if (table := have.get("estimation")) is not None:
        found["estimation"] = simulated.estimation(table, "surfaces")
        found["prediction"] = simulated.estimation(table, "prediction")
    if (table := have.get("scalability")) is not None:
        found["scalability"] = simulated.scalability(table)
        found["beyond"] = simulated.beyond(table)
        found["exponents"] = simulated.exponents(table)
    if (table := have.get("ablation")) is not None:
        planned = [(one.unit.problem, one.unit.method) for one in EXPERIMENTS["ablation"].plan(False)]
        found["ablation"] = real.ablation(table)
        found["verdict"] = real.verdict(table)
        found["more"] = real.more(table)
        found["seconds"] = real.seconds(table)
        found["missing"] = real.missing(table, planned)
    if (table := have.get("speed")) is not None:
        found["speed"] = simulated.speed(table)
        found["predicting"] = simulated.predicting(table)
    if (results / "broad.csv").exists():
        found["broad"] = broad.comparison(units("broad", results))
    return found


def filled(page: str, found: dict[str, str]) -> str:
    """The page with every marked place replaced by its table; a mark without one keeps what it has."""

    def place(match: re.Match[str]) -> str:
        name, old = match[1], match[2]
        return f"<!-- table: {name} -->\n\n{found.get(name, old.strip())}\n\n<!-- end -->"

    return re.sub(r"<!-- table: (\w+) -->\n(.*?)<!-- end -->", place, page, flags=re.DOTALL)


def draw(results: Path, folder: Path) -> None:
    """All figures whose experiment has results."""
    folder.mkdir(exist_ok=True)
    wanted: dict[str, dict[str, Callable[..., None]]] = {
        "estimation": {
            "contours": figures.contours,
            "differences": figures.differences,
            "predictions": figures.predictions,
        },
        "scalability": {"scalability": figures.scalability},
        "speed": {"speed": figures.speed},
    }
    for experiment, drawn in wanted.items():
        if (results / f"{experiment}.csv").exists():
            table = units(experiment, results)
            for name, function in drawn.items():
                function(table, folder / f"evidence_{name}.png")


def main() -> int:
    """Tables and figures of the results that are there."""
    page = DOCS / "benchmarks.md"
    page.write_text(filled(page.read_text(), tables(RESULTS)))
    draw(RESULTS, DOCS / "figures")
    print(page)
    return 0


if __name__ == "__main__":
    sys.exit(main())

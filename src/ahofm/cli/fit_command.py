"""Fit: what it takes, what it says, and what it leaves behind when it is interrupted."""

from __future__ import annotations

import json
import shlex
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from ahofm.backends import backend_of
from ahofm.cli.app import AsJson, Decimal, Missing, Sep, app, cell, err, out, show
from ahofm.cli.constraints import constraints
from ahofm.cli.errors import CommandError, Interrupted
from ahofm.cli.fitting import Job, Roles, estimator, held_out, job_of, kinds, stored_job
from ahofm.cli.outputs import check_outputs
from ahofm.cli.tables import Dialect
from ahofm.cli.words import in_words
from ahofm.cost import Forecast
from ahofm.explain import summary
from ahofm.training.settings import EFFORTS

HOLDOUT = 0.1
"""Share of the rows for a score where there is no cross-validation."""

DEFAULT_ORDER = "3"
"""Highest order of interactions."""


@app.command()
def fit(
    train: Annotated[Path, typer.Argument(help="Rows to fit.")],
    target: Annotated[str, typer.Option(help="The column to predict.")],
    out_path: Annotated[Path, typer.Option("--out", help="Where the model goes.")] = Path("model.ahofm"),
    report: Annotated[Path | None, typer.Option(help="Also write a page that shows the model.")] = None,
    family: Annotated[
        str,
        typer.Option(help="auto is classes for text and 0/1, else gaussian; poisson, gamma, ..."),
    ] = "auto",
    order: Annotated[str, typer.Option(help="Highest order of interactions, or auto.")] = DEFAULT_ORDER,
    categorical: Annotated[list[str] | None, typer.Option(help="Columns of numbers that are levels: a,b.")] = None,
    cyclic: Annotated[list[str] | None, typer.Option(help="NAME=PERIOD, e.g. hour=24,month=12.")] = None,
    linear: Annotated[list[str] | None, typer.Option(help="Columns with straight effects: a,b.")] = None,
    interaction_cst: Annotated[
        list[str] | None,
        typer.Option(help="Columns that may interact, as A,B,C, repeated; or no_interactions, or pairwise."),
    ] = None,
    exclude: Annotated[
        list[str] | None,
        typer.Option(help="An interaction that is barred, as A,B; or a column, as A. May be repeated."),
    ] = None,
    monotonic_cst: Annotated[
        list[str] | None, typer.Option(help="NAME=1, -1, convex or concave, e.g. income=1. May be repeated.")
    ] = None,
    drop: Annotated[list[str] | None, typer.Option(help="Columns to leave out: a,b.")] = None,
    weight: Annotated[str | None, typer.Option(help="The column of weights.")] = None,
    offset: Annotated[str | None, typer.Option(help="A column that is added to the linear predictor.")] = None,
    exposure: Annotated[
        str | None, typer.Option(help="The column whose logarithm is added: counts per unit of it.")
    ] = None,
    group: Annotated[
        str | None,
        typer.Option(help="A column of groups: validation rows are of other groups. It does not predict."),
    ] = None,
    time_column: Annotated[
        str | None,
        typer.Option(
            "--time", help="A column of times: fits to earlier rows predict later ones. It predicts unless --drop."
        ),
    ] = None,
    event: Annotated[
        str | None,
        typer.Option(help="The column of events, 1, or 0 where the time (--target) is censored: --family weibull, ..."),
    ] = None,
    missing: Missing = None,
    sep: Sep = None,
    decimal: Decimal = ".",
    holdout: Annotated[
        float | None,
        typer.Option(
            help="Share of rows for a score, by a second fit to the others; 0: none. "
            "By default the score is that of the cross-validation in the fit, and 0.1 where there is none."
        ),
    ] = None,
    effort: Annotated[str, typer.Option(help="fast (one fit), balanced, or best (more candidates).")] = "balanced",
    time_budget: Annotated[float | None, typer.Option(help="Seconds; the best model so far is saved then.")] = None,
    fast: Annotated[bool, typer.Option("--fast", help="Leave out uncertainty: no intervals later.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what it would cost; nothing is written.")
    ] = False,
    out_of_core: Annotated[
        bool, typer.Option("--out-of-core", help="Code the file (or a folder of files) to disk, and fit in passes.")
    ] = False,
    store: Annotated[
        Path | None, typer.Option(help="Where --out-of-core keeps codes; a temporary folder by default.")
    ] = None,
    checkpoint: Annotated[
        Path | None, typer.Option(help="A file that keeps the fit on its way: the same command goes on from it.")
    ] = None,
    memory_limit: Annotated[str, typer.Option(help="Of --out-of-core.")] = "2GB",
    seed: Annotated[int, typer.Option(help="Of everything random.")] = 0,
    threads: Annotated[int, typer.Option(help="-1: all cores.")] = -1,
    device: Annotated[str, typer.Option(help="Where to compute: auto or cpu.")] = "auto",
    as_json: AsJson = False,
) -> None:
    """Fit a model to a file, and save it."""
    outputs = {"--out": out_path, "--report": report, "--checkpoint": checkpoint}
    check_outputs(outputs, [train], written=not dry_run)
    _check(holdout, effort, time_budget)
    if group and time_column:
        raise CommandError("--group and --time are two ways to choose validation rows; give one of them")
    if out_of_core and dry_run:
        raise CommandError("--dry-run reads the table: leave out --out-of-core, or try it on a part of the rows")
    backend_of(device)  # before a long file is read
    levels, begun = list(categorical or []), time.perf_counter()
    dialect = Dialect(sep, decimal)
    dialect.check()
    given = (weight, offset, exposure, drop or [], levels, missing or [])
    roles = Roles(target, *given, group, time_column, event, dialect)
    quiet = as_json or not err.is_terminal
    if out_of_core:
        job = stored_job(train, roles, folder=store, memory_limit=memory_limit, threads=threads, quiet=quiet)
    else:
        job = job_of(train, roles)
    holdout = 0.0 if out_of_core else holdout
    columns = kinds(levels, cyclic or [], linear or [], job.names)
    settings = {
        "random_state": seed,
        "n_jobs": threads,
        "device": device,
        "verbose": 0 if quiet else 1,
        "effort": effort,
        "time_budget": time_budget,
        "cv": None if out_of_core else job.splits,
        **constraints(interaction_cst or [], exclude or [], monotonic_cst or []),
    }
    settings["order"] = _order(order, settings["interaction_cst"])
    if dry_run:
        cost = estimator(job, family, columns, settings).forecast(job.X, job.y, job.weight, job.offset, job.groups)
        _say_cost(cost, bool(holdout) or (holdout is None and not cost.parts["search"]), as_json)
        return
    model = estimator(job, family, columns, {**settings, "checkpoint": checkpoint})
    told = _fit(model, job, roles, out_path, fast=fast)
    if report is not None:
        with _saved(out_path, f"{report} was not written"):
            model.report(report, target=target, command=shlex.join(["ahofm", *sys.argv[1:]]))
    found: dict[str, float] = {}
    validated = model.model_.validated
    if holdout is None:
        holdout = HOLDOUT if validated is None and time_budget is None else 0.0
    if holdout and not quiet:
        err.print(f"Saved {out_path}. For a score: a fit without {holdout:.0%} of the rows.")
    if holdout:
        found = _score(estimator(job, family, columns, settings), job, holdout, seed)
    result = {
        "model": str(out_path),
        "report": None if report is None else str(report),
        "rows": job.n_rows,
        "family": model.model_.family.name,
        "columns": [book.describe() for book in model.model_.encoder.codebooks],
        "cross-validated": None if validated is None else asdict(validated),
        "held out": found,
        "seconds": time.perf_counter() - begun,
        "ended": model.trace_.reason.value,
        "warnings": told,
    }
    with _saved(out_path, "what it is was not said"):
        if as_json:
            print(json.dumps(result, default=str))
        else:
            _say_fit(model, result, holdout)
    if holdout and not found:
        raise Interrupted(f"{out_path} is complete, its score is not")


@contextmanager
def _saved(path: Path, but: str) -> Iterator[None]:
    """What an interrupt leaves, after the model was saved."""
    try:
        yield
    except KeyboardInterrupt:
        raise Interrupted(f"{path} is complete, {but}") from None


def _check(holdout: float | None, effort: str, time_budget: float | None) -> None:
    if holdout is not None and not 0.0 <= holdout < 1.0:
        raise CommandError(f"--holdout must be at least 0 and below 1, got {holdout:g}")
    if effort not in EFFORTS:
        raise CommandError(f"--effort must be one of {', '.join(EFFORTS)}, got {effort}")
    if time_budget is not None and not time_budget > 0.0:
        raise CommandError(f"--time-budget must be a positive number of seconds, got {time_budget:g}")


def _fit(model: Any, job: Job, roles: Roles, path: Path, *, fast: bool) -> list[str]:
    """Fit an estimator and save its model; the warnings on the way."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            job.fit(model)
            _save(model if fast else model.with_uncertainty(), roles, path)
        except KeyboardInterrupt:
            raise Interrupted(_left(model, roles, path)) from None
    return sorted({str(one.message) for one in told})


def _score(model: Any, job: Job, fraction: float, seed: int) -> dict[str, float]:
    """Of validation rows; nothing when it is interrupted: the model is saved by now."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # they have been said of the model
            return held_out(model, job, fraction, seed)
    except KeyboardInterrupt:
        return {}


def _save(model: Any, roles: Roles, path: Path) -> None:
    """With what the command has to know of files to predict."""
    replace(model.model_, missing=tuple(roles.missing)).save(path)


def _left(model: Any, roles: Roles, path: Path) -> str:
    """Keep what an interrupted fit has, beside what was there before, and say where."""
    said = f"{path} was not written"
    if hasattr(model, "model_"):
        part = path.with_name(f"{path.stem}.partial{path.suffix}")
        _save(model, roles, part)
        said += f"; the best model so far is {part}"
    if model.checkpoint is not None and model.checkpoint.exists():
        said += f"; the same command goes on from {model.checkpoint}"
    return said


def _say_fit(model: Any, result: dict[str, Any], holdout: float) -> None:
    """Columns, summary, score and what went wrong."""
    names = ("column", "kind", "codes", "functions", "missing")
    show("What each column became", names, [[cell(book[name]) for name in names] for book in result["columns"]])
    told = summary(model)
    out.print(str(told), soft_wrap=True)
    out.print("\nIn short", soft_wrap=True)
    for line in in_words(told, result["rows"]):
        out.print(f"- {line}", soft_wrap=True)
    if result["held out"]:
        said = ", ".join(f"{name} {value:.4g}" for name, value in result["held out"].items())
        out.print(f"- On {holdout:.0%} of the rows, which a second fit had not seen: {said}", soft_wrap=True)
    for text in result["warnings"]:
        out.print(f"warning: {text}", soft_wrap=True)
    report = "" if result["report"] is None else f"  Report: {result['report']}"
    out.print(f"{result['seconds']:.1f} s. Model: {result['model']}{report}", soft_wrap=True)


def _say_cost(cost: Forecast, again: bool, as_json: bool) -> None:
    """``again``: whether a second fit gives the score."""
    if as_json:
        print(json.dumps({**asdict(cost), "fits": 2 if again else 1}))
        return
    out.print(str(cost), soft_wrap=True)
    if again:
        out.print("The score on validation rows takes as long again (--holdout 0 leaves it out).", soft_wrap=True)


def _order(text: str, interaction_cst: Any) -> int | str | None:
    """The order that was asked for; by default as far as a constraint by name allows."""
    if text == "auto":
        return "auto"
    if isinstance(interaction_cst, str) and text == DEFAULT_ORDER:
        return None
    try:
        return int(text)
    except ValueError as error:
        raise CommandError(f"--order must be a whole number or auto, got {text}") from error

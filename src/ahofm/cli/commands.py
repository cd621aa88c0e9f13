"""Fit, predict, explain, report, info, demo: what each of them takes and says."""

from __future__ import annotations

import json
import sys
import time
import warnings
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from ahofm.cli.app import app, cell, err, out, show
from ahofm.cli.demo import run_demo
from ahofm.cli.fitting import Roles, estimator, held_out, job_of, kinds, stored_job
from ahofm.cli.predicting import Wanted, predict_file
from ahofm.cli.start import CommandError
from ahofm.cli.tables import Writer, existing, format_of, replacing
from ahofm.explain import effect, summary, top_interactions, variance_shares
from ahofm.fit import Forecast
from ahofm.model import Model, Reason, load

Missing = Annotated[
    list[str] | None, typer.Option("--missing", help="A cell that means missing, e.g. '?'. May be repeated.")
]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object instead of tables.")]


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
    order: Annotated[str, typer.Option(help="Highest order of interactions, or auto.")] = "3",
    categorical: Annotated[
        list[str] | None, typer.Option(help="A column of numbers that are levels. May be repeated.")
    ] = None,
    cyclic: Annotated[list[str] | None, typer.Option(help="NAME=PERIOD, e.g. hour=24. May be repeated.")] = None,
    linear: Annotated[list[str] | None, typer.Option(help="A column with straight effects. May be repeated.")] = None,
    drop: Annotated[list[str] | None, typer.Option(help="A column to leave out. May be repeated.")] = None,
    weight: Annotated[str | None, typer.Option(help="The column of weights.")] = None,
    offset: Annotated[str | None, typer.Option(help="A column that is added to the predictor.")] = None,
    exposure: Annotated[
        str | None, typer.Option(help="The column whose logarithm is added: counts per unit of it.")
    ] = None,
    missing: Missing = None,
    holdout: Annotated[float, typer.Option(help="Share of rows for a score, by a fit to the others; 0: none.")] = 0.1,
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
    memory_limit: Annotated[str, typer.Option(help="Of --out-of-core.")] = "2GB",
    seed: Annotated[int, typer.Option(help="Of everything random.")] = 0,
    threads: Annotated[int, typer.Option(help="-1: all cores.")] = -1,
    as_json: AsJson = False,
) -> None:
    """Fit a model to a file, and save it."""
    for path in (out_path, *([report] if report else [])):
        if not path.parent.is_dir():
            raise CommandError(f"{path}: the folder {path.parent} does not exist")
    if not 0.0 <= holdout < 1.0:
        raise CommandError(f"--holdout must be at least 0 and below 1, got {holdout:g}")
    levels, begun = list(categorical or []), time.perf_counter()
    roles = Roles(target, weight, offset, exposure, drop or [], levels, missing or [])
    quiet = as_json or not err.is_terminal
    if out_of_core and dry_run:
        raise CommandError("--dry-run reads the table: leave out --out-of-core, or try it on a part of the rows")
    if out_of_core:
        job = stored_job(train, roles, folder=store, memory_limit=memory_limit, threads=threads, quiet=quiet)
    else:
        job = job_of(train, roles)
    holdout = 0.0 if out_of_core else holdout
    columns = kinds(levels, cyclic or [], linear or [], job.names)
    settings = {
        "order": "auto" if order == "auto" else _integer(order, "--order"),
        "random_state": seed,
        "n_jobs": threads,
        "verbose": 0 if quiet else 1,
    }
    if dry_run:
        cost = estimator(job, family, columns, settings).forecast(job.X, job.y, job.weight, job.offset)
        _say_cost(cost, holdout, as_json)
        return
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        model = estimator(job, family, columns, settings)
        job.fit(model)
        if not fast:
            model.add_uncertainty()
    model.model_.save(out_path)
    if report is not None:
        model.report(report, target=target)
    found = {}
    if holdout and model.trace_.reason is not Reason.INTERRUPTED:  # the model is safe by now
        if not quiet:
            err.print(f"Saved {out_path}. For a score: a fit without {holdout:.0%} of the rows.", highlight=False)
        with warnings.catch_warnings(), suppress(KeyboardInterrupt):
            warnings.simplefilter("ignore")  # they have been said of the model
            found = held_out(estimator(job, family, columns, settings), job, holdout, seed)
    result = {
        "model": str(out_path),
        "report": None if report is None else str(report),
        "rows": job.n_rows,
        "family": model.model_.family.name,
        "columns": [book.describe() for book in model.model_.encoder.codebooks],
        "held out": found,
        "seconds": time.perf_counter() - begun,
        "ended": model.trace_.reason.value,
        "warnings": sorted({str(one.message) for one in told}),
    }
    if as_json:
        print(json.dumps(result, default=str))
        return
    _say_fit(model, result, holdout)


@app.command()
def predict(
    model: Annotated[Path, typer.Argument(help="A model that fit has written.")],
    rows: Annotated[Path, typer.Argument(help="Rows to predict; more columns than the model needs are fine.")],
    out_path: Annotated[
        Path | None, typer.Option("--out", help="Where predictions go; otherwise CSV on the screen.")
    ] = None,
    keep: Annotated[
        list[str] | None, typer.Option(help="A column to copy, e.g. an identifier. May be repeated.")
    ] = None,
    interval: Annotated[float | None, typer.Option(help="Add low and high, e.g. 0.95.")] = None,
    kind: Annotated[str, typer.Option(help="Of intervals: mean, or new observations.")] = "mean",
    shapley: Annotated[bool, typer.Option("--shapley", help="Add Shapley values, a column each.")] = False,
    contributions: Annotated[bool, typer.Option("--contributions", help="Add every term, a column each.")] = False,
    offset: Annotated[str | None, typer.Option(help="As in fit.")] = None,
    exposure: Annotated[str | None, typer.Option(help="As in fit.")] = None,
    missing: Missing = None,
) -> None:
    """Predict a file of any length, piece by piece."""
    if kind not in ("mean", "new"):
        raise CommandError(f"--kind must be mean or new, got {kind}")
    if interval is not None and not 0.0 < interval < 1.0:
        raise CommandError(f"--interval must lie between 0 and 1, got {interval:g}")
    if shapley and contributions:
        raise CommandError("--shapley and --contributions: give one of them")
    parts = "shapley" if shapley else "terms" if contributions else None
    wanted = Wanted(missing or [], keep or [], interval, kind, parts, offset, exposure)
    count = predict_file(_model(model), rows, out_path, wanted)
    if out_path is not None:
        err.print(f"{count} rows: {out_path}", soft_wrap=True)


@app.command()
def explain(
    model: Annotated[Path, typer.Argument(help="A model that fit has written.")],
    columns: Annotated[
        str | None, typer.Option("--effect", help="The effect of a column, or of several: hour or hour,temp.")
    ] = None,
    top: Annotated[int, typer.Option(help="How many interactions.")] = 10,
    label: Annotated[str | None, typer.Option("--class", help="For models of several classes.")] = None,
    out_path: Annotated[Path | None, typer.Option("--out", help="Write the effect as a table.")] = None,
    as_json: AsJson = False,
) -> None:
    """What matters: columns, interactions; or one effect as a table."""
    fitted = _model(model)
    predictor = _predictor(fitted, label)
    if columns is not None:
        found = effect(fitted, columns.split(","), predictor=predictor)
        table = found.to_frame(backend="pyarrow")
        if out_path is None:
            writer = Writer(sys.stdout.buffer, "csv")
            writer.write(table)
            writer.close()
            return
        with replacing(out_path) as draft:
            writer = Writer(str(draft), format_of(out_path))
            writer.write(table)
            writer.close()
        err.print(f"{table.num_rows} points: {out_path}", soft_wrap=True)
        return
    shares = variance_shares(fitted, predictor=predictor)
    best = top_interactions(fitted, top, predictor=predictor) if fitted.order > 1 else None
    rows = shares.to_frame(backend="pyarrow").to_pylist()
    pairs = [] if best is None else best.to_frame(backend="pyarrow").to_pylist()
    if as_json:
        print(json.dumps({"orders": shares.orders, "columns": rows, "interactions": pairs}))
        return
    show(
        "Shares of the variance",
        ("column", "main", "interactions", "total"),
        [[cell(v) for v in row.values()] for row in rows],
    )
    show("By order", ("order", "share"), [[str(d), cell(s)] for d, s in shares.orders.items()])
    if pairs:
        show(
            "Strongest interactions",
            ("term", "order", "share", "std"),
            [[cell(v) for v in row.values()] for row in pairs],
        )


@app.command("report")
def write_report(
    model: Annotated[Path, typer.Argument(help="A model that fit has written.")],
    out_path: Annotated[Path, typer.Option("--out", help="The page.")] = Path("report.html"),
    target: Annotated[str, typer.Option(help="What is predicted, for headings.")] = "the target",
) -> None:
    """Write a page that shows a model. It has no diagnostics: those need the rows (fit --report)."""
    from ahofm.report import write  # noqa: PLC0415 - one command of several

    write(_model(model), out_path, target=target)
    err.print(f"Report: {out_path}", soft_wrap=True)


@app.command()
def info(model: Annotated[Path, typer.Argument(help="A model that fit has written.")], as_json: AsJson = False) -> None:
    """What is in a model file."""
    fitted = _model(model)
    if as_json:
        table = summary(fitted).to_frame(backend="pyarrow").to_pylist()
        print(
            json.dumps(
                {"family": repr(fitted.family), "order": fitted.order, "ranks": fitted.ranks, "columns": table},
                default=str,
            )
        )
        return
    out.print(str(summary(fitted)), markup=False, highlight=False, soft_wrap=True)


@app.command()
def demo(out_path: Annotated[Path, typer.Option("--out", help="A folder for what it writes.")] = Path("demo")) -> None:
    """Fit simulated and real data, compare with the truth and with others, write figures and a report."""
    run_demo(out_path, out)


def _say_fit(model: Any, result: dict[str, Any], holdout: float) -> None:
    """Columns, summary, score and what went wrong."""
    names = ("column", "kind", "codes", "functions", "missing")
    show("What each column became", names, [[cell(book[name]) for name in names] for book in result["columns"]])
    out.print(str(summary(model)), markup=False, highlight=False, soft_wrap=True)
    if result["held out"]:
        said = ", ".join(f"{name} {value:.4g}" for name, value in result["held out"].items())
        out.print(f"\nOn {holdout:.0%} of the rows, set aside for a fit to the others: {said}", soft_wrap=True)
    for text in result["warnings"]:
        out.print(f"warning: {text}", markup=False, soft_wrap=True)
    if model.trace_.reason is Reason.INTERRUPTED:
        out.print("Interrupted: the model is the best so far.")
    elif holdout and not result["held out"]:
        out.print("Interrupted: the model is complete, its score is not.")
    report = "" if result["report"] is None else f"  Report: {result['report']}"
    out.print(f"{result['seconds']:.1f} s. Model: {result['model']}{report}", soft_wrap=True)


def _say_cost(cost: Forecast, holdout: float, as_json: bool) -> None:
    fits = 2 if holdout else 1
    if as_json:
        print(json.dumps({**asdict(cost), "fits": fits}))
        return
    out.print(str(cost), markup=False, highlight=False, soft_wrap=True)
    if holdout:
        out.print("The score on rows set aside takes as long again (--holdout 0 leaves it out).", soft_wrap=True)


def _model(path: Path) -> Model:
    return load(existing(path))


def _predictor(model: Model, label: str | None) -> Any:
    if model.family.n_predictors == 1:
        return None
    labels = list(model.classes or range(model.family.n_predictors))
    found = [own for own in labels if str(own) == label]
    if not found:
        raise CommandError(f"--class must be one of {', '.join(map(str, labels))}")
    return found[0]


def _integer(text: str, option: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise CommandError(f"{option} must be a whole number or auto, got {text}") from error

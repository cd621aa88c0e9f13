"""Predict, explain, report, info, demo: what each of them takes and says."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from ahofm.cli.app import AsJson, Decimal, Missing, Sep, app, cell, err, names_in, out, show
from ahofm.cli.demo import run_demo
from ahofm.cli.errors import CommandError, Interrupted
from ahofm.cli.fitting import Roles
from ahofm.cli.outputs import check_outputs
from ahofm.cli.predicting import Wanted, job_for, predict_file
from ahofm.cli.tables import Dialect, Writer, existing, format_of
from ahofm.estimators.files import as_estimator
from ahofm.explain import effect, summary, top_interactions, variance_shares
from ahofm.model import Model, load
from ahofm.writing import replacing


@app.command()
def predict(
    model: Annotated[Path, typer.Argument(help="A model that fit has written.")],
    rows: Annotated[Path, typer.Argument(help="Rows to predict; more columns than the model needs are fine.")],
    out_path: Annotated[
        Path | None, typer.Option("--out", help="Where predictions go; otherwise CSV on the screen.")
    ] = None,
    keep: Annotated[list[str] | None, typer.Option(help="Columns to copy, e.g. an identifier: a,b.")] = None,
    interval: Annotated[float | None, typer.Option(help="Add low and high, e.g. 0.95.")] = None,
    kind: Annotated[str, typer.Option(help="Of intervals: mean, or new observations.")] = "mean",
    shapley: Annotated[bool, typer.Option("--shapley", help="Add Shapley values, a column each.")] = False,
    contributions: Annotated[bool, typer.Option("--contributions", help="Add every term, a column each.")] = False,
    offset: Annotated[str | None, typer.Option(help="As in fit; 0 without it.")] = None,
    exposure: Annotated[
        str | None, typer.Option(help="As in fit; without it predictions are per unit of exposure.")
    ] = None,
    missing: Missing = None,
    sep: Sep = None,
    decimal: Decimal = ".",
) -> None:
    """Predict a file of any length, piece by piece."""
    if kind not in ("mean", "new"):
        raise CommandError(f"--kind must be mean or new, got {kind}")
    if interval is not None and not 0.0 < interval < 1.0:
        raise CommandError(f"--interval must lie between 0 and 1, got {interval:g}")
    if shapley and contributions:
        raise CommandError("--shapley and --contributions: give one of them")
    parts = "shapley" if shapley else "terms" if contributions else None
    check_outputs({"--out": out_path}, [model, rows])
    dialect = Dialect(sep, decimal)
    dialect.check()
    wanted = Wanted(missing or [], names_in(keep), interval, kind, parts, offset, exposure, dialect)
    try:
        count, unseen = predict_file(_model(model), rows, out_path, wanted)
    except KeyboardInterrupt:
        raise Interrupted(
            "the predictions on the screen are not complete" if out_path is None else f"{out_path} was not written"
        ) from None
    for line in unseen.lines():
        err.print(line, soft_wrap=True)
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
    check_outputs({"--out": out_path}, [model])
    fitted = _model(model)
    linear_predictor = _linear_predictor(fitted, label)
    if columns is not None:
        found = effect(fitted, columns.split(","), linear_predictor=linear_predictor)
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
    shares = variance_shares(fitted, linear_predictor=linear_predictor)
    best = top_interactions(fitted, top, linear_predictor=linear_predictor) if fitted.order > 1 else None
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
    out_path: Annotated[Path, typer.Option("--out", help="A page; .json and .md are data and text.")] = Path(
        "report.html"
    ),
    target: Annotated[
        str, typer.Option(help="What is predicted, for headings; with --rows its column.")
    ] = "the target",
    rows: Annotated[
        Path | None, typer.Option(help="Rows that were not fitted, with the target: their scores and diagnostics.")
    ] = None,
    event: Annotated[str | None, typer.Option(help="As in fit.")] = None,
    weight: Annotated[str | None, typer.Option(help="As in fit.")] = None,
    offset: Annotated[str | None, typer.Option(help="As in fit.")] = None,
    exposure: Annotated[str | None, typer.Option(help="As in fit.")] = None,
    missing: Missing = None,
    sep: Sep = None,
    decimal: Decimal = ".",
) -> None:
    """Write a page that shows a model. Diagnostics need rows: --rows, or those of training with fit --report."""
    from ahofm.report import write  # noqa: PLC0415 - one command of several

    check_outputs({"--out": out_path}, [model, *([rows] if rows else [])])
    fitted, dialect = _model(model), Dialect(sep, decimal)
    dialect.check()
    given = {}
    if rows is not None:
        known = [*fitted.missing, *(missing or [])]
        job = job_for(
            fitted, rows, Roles(target, weight, offset, exposure, [], [], known, event=event, dialect=dialect)
        )
        given = {"X": job.X, "y": job.y, "sample_weight": job.weight, "offset": job.offset}
    write(as_estimator(fitted), out_path, target=target, **given)
    err.print(f"Report: {out_path}", soft_wrap=True)


@app.command()
def info(model: Annotated[Path, typer.Argument(help="A model that fit has written.")], as_json: AsJson = False) -> None:
    """What is in a model file."""
    fitted = _model(model)
    if as_json:
        table = summary(fitted).to_frame(backend="pyarrow").to_pylist()
        print(
            json.dumps(
                {
                    "family": repr(fitted.family),
                    "order": fitted.order,
                    "ranks": dict(fitted.ranks),
                    "columns": table,
                    "missing": fitted.missing,
                },
                default=str,
            )
        )
        return
    out.print(str(summary(fitted)), soft_wrap=True)
    if fitted.missing:
        out.print(f"cells that mean missing: {', '.join(map(repr, fitted.missing))}", soft_wrap=True)


@app.command()
def demo(out_path: Annotated[Path, typer.Option("--out", help="A folder for what it writes.")] = Path("demo")) -> None:
    """Fit simulated and real data, compare with the truth and with others, write figures and a report."""
    if out_path.exists() and not out_path.is_dir():
        raise CommandError(f"--out {out_path} is a file; give a folder")
    try:
        run_demo(out_path, out)
    except KeyboardInterrupt:
        raise Interrupted(f"{out_path} may hold some of its files, each of them complete") from None


def _model(path: Path) -> Model:
    return load(existing(path))


def _linear_predictor(model: Model, label: str | None) -> Any:
    if model.family.n_eta == 1:
        return None
    labels = list(model.classes or range(model.family.n_eta))
    found = [own for own in labels if str(own) == label]
    if not found:
        raise CommandError(f"--class must be one of {', '.join(map(str, labels))}")
    return found[0]

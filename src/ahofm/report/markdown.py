"""The report as text with tables."""

from __future__ import annotations

from typing import Any

from ahofm.explain.markdown import markdown_table as table
from ahofm.explain.markdown import markdown_text as text

_LEVELS = 10


def markdown(content: dict[str, Any]) -> str:
    """Facts, checks, columns, interactions, effects at a few values, and how it was made."""
    made = content["made"]
    lines = [f"# {text(content['title'])}", "", f"{text(content['target'])}: {text(made['family_words'])}", ""]
    lines += [f"- **{text(one['value'])}** {text(one['label'])}" for one in content["facts"]]
    lines += ["", "## Checks", ""]
    for one in content["checks"]:
        said = "; ".join(one["found"]) if one["found"] else "fine"
        lines.append(f"- `{one['code']}`: {text(said)}" + ("" if one["passed"] else f" {text(one['remedy'])}"))
    for predictor in content["predictors"]:
        lines += _predictor(content, predictor)
    lines += ["", "## Columns", "", *table(content["fit"]["columns"]), "", "## Orders", ""]
    lines += [*table(content["fit"]["orders"]), "", "## How it was made", ""]
    names = ("date", "version", "family", "rows", "command", "settings", "validated", "ended")
    lines += [f"- {name}: {text(made[name])}" for name in names if made[name]]
    lines += [f"- {text(one['name'])}: {text(one['value'])} ({text(one['reason'])})" for one in made["choices"]]
    lines += [f"- edit: {text(edit)}" for edit in made["edits"]]
    return "\n".join(lines) + "\n"


def _predictor(content: dict[str, Any], own: dict[str, Any]) -> list[str]:
    names = [column["name"] for column in content["columns"]]
    lines = ["", f"## What matters{': ' + text(own['name']) if own['name'] else ''}", ""]
    order = sorted(range(len(names)), key=lambda j: -own["each"][j])
    rows = [["column", "share of variance", "of it main effect", "standard deviation"]]
    rows += [[names[j], f"{own['each'][j]:.1%}", f"{own['main'][j]:.1%}", f"{own['std'][j]:.4g}"] for j in order[:30]]
    lines += table(rows)
    if own["top"]:
        rows = [["interaction", "share of variance"]]
        rows += [[" × ".join(names[j] for j in one["columns"]), f"{one['share']:.2%}"] for one in own["top"][:12]]
        lines += ["", *table(rows)]
    lines += ["", "### Effects on the linear predictor", ""]
    for j in order[:12]:
        found = own["effects"][j]
        if found is not None:
            lines += _effect(content["columns"][j], found)
    return lines


def _effect(column: dict[str, Any], found: dict[str, Any]) -> list[str]:
    """An effect at five numbers along its axis, or at the highest and lowest of its levels."""
    count = len(found["x"])
    at = sorted({round(k * (count - 1) / 4) for k in range(5)}) if column["numbers"] else list(range(count))
    if not column["numbers"]:
        at = sorted(at, key=lambda k: -found["value"][k])
        at = at if count <= _LEVELS else at[: _LEVELS // 2] + at[-_LEVELS // 2 :]
    rows = [[column["name"], "effect", "95 %"]]
    for k in at:
        name = f"{found['x'][k]:.5g}" if column["numbers"] else column["levels"][k]
        band = "" if found["low"] is None else f"{found['low'][k]:.4g} to {found['high'][k]:.4g}"
        rows.append([name, f"{found['value'][k]:.4g}", band])
    return [*table(rows), ""]

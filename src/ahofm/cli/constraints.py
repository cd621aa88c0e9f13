"""Options that constrain a fit: which columns may interact, and shapes of effects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ahofm.cli.errors import CommandError
from ahofm.training.factor_groups import NAMED


def constraints(interaction_cst: Sequence[str], exclude: Sequence[str], monotonic_cst: Sequence[str]) -> dict[str, Any]:
    """Settings of an estimator from options as they were typed."""
    groups: Any = [_names(one, "--interaction-cst") for one in interaction_cst] or None
    named = [one for one in interaction_cst if one in NAMED]
    if named and len(interaction_cst) > 1:
        raise CommandError(f"--interaction-cst {named[0]} stands alone; leave the others out")
    shapes = dict(_shape(one) for one in monotonic_cst)
    if len(shapes) < len(monotonic_cst):
        raise CommandError("--monotonic-cst names a column twice; give one shape for each")
    return {
        "interaction_cst": named[0] if named else groups,
        "exclude": [_names(one, "--exclude") for one in exclude] or None,
        "monotonic_cst": shapes or None,
    }


def _names(text: str, option: str) -> tuple[str, ...]:
    found = tuple(name.strip() for name in text.split(","))
    if not all(found):
        raise CommandError(f"{option} takes names of columns as A,B, got {text!r}")
    return found


def _shape(text: str) -> tuple[str, Any]:
    name, _, value = text.rpartition("=")
    shapes: dict[str, Any] = {"1": 1, "+1": 1, "-1": -1, "0": 0, "convex": "convex", "concave": "concave"}
    if not name or value not in shapes:
        raise CommandError(f"--monotonic-cst takes NAME=1, NAME=-1, NAME=convex or NAME=concave, got {text!r}")
    return name, shapes[value]

"""Scorers without dependencies: a model as one file of Python, C99 or JavaScript, each an evaluator and its data."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from ahofm.columns.basis import Floats
from ahofm.explain.arguments import Fitted, model_of
from ahofm.export.description import Column, Description, Group, LevelColumn, NumberColumn, describe
from ahofm.export.packed import EVALUATOR, Packer, base, packed
from ahofm.orders import PRODUCT

_HERE = Path(__file__).parent

_MEANS = {
    "identity": "(e)[0]",
    "log": "exp((e)[0] + AHOFM_SHIFT)",
    "logit": "ahofm_logistic((e)[0])",
    "inverse": "((e)[0] > 0.0 ? 1.0 / (e)[0] : NAN)",
    "levels": "ahofm_expected_level((e)[0])",
    "zero_inflated": "exp((e)[0] - fmax((e)[1], 0.0) - log1p(exp(-fabs((e)[1]))))",
    "softmax": "(e)[0]",
}
"""Of linear predictors ``e``, in C."""


def to_python(fitted: Fitted) -> str:
    """Write a model as one file of Python that needs NumPy only.

    Parameters
    ----------
    fitted : estimator or model
        Fitted.

    Returns
    -------
    str
        A module with ``predict``, ``predict_proba``, ``mean``, ``linear_predictors`` and ``contributions``.

    Examples
    --------
    >>> from ahofm.export import to_python
    >>> scorer = {}
    >>> exec(to_python(model), scorer)
    >>> bool(np.allclose(scorer["predict"](X), model.predict(X)))
    True
    """
    data, numbers = _packed(fitted)
    source = (_HERE / "scorer.py").read_text(encoding="utf-8")
    source = re.sub(r"\nMODEL: .*\nNUMBERS: .*\n", "", source)
    source = source.replace("from typing", "import base64\nimport gzip\nimport json\nfrom typing", 1)
    lines = [
        f"# Written by ahofm {version('ahofm')}.",
        source,
        "",
        f"MODEL: dict[str, Any] = json.loads({json.dumps(json.dumps(data))})",
        f'NUMBERS: Array = np.frombuffer(gzip.decompress(base64.b64decode("{numbers}")), dtype="<f8")',
        "",
    ]
    return "\n".join(lines)


def to_javascript(fitted: Fitted) -> str:
    """Write a model as an ES module: the evaluator of the report page, with the model as its data.

    Parameters
    ----------
    fitted : estimator or model
        Fitted.

    Returns
    -------
    str
        A module that exports ``names``, ``classes``, ``predict(row, offsets)`` and ``explain(row, k)``. A row is an
        object with a property for each column, or an array in the order of ``names``.

    Examples
    --------
    >>> from ahofm.export import to_javascript
    >>> "export function predict(row" in to_javascript(model)
    True
    """
    data, numbers = _packed(fitted)
    return "\n".join(
        [
            f"// Written by ahofm {version('ahofm')}.",
            EVALUATOR.read_text(encoding="utf-8"),
            f"const model = {json.dumps(data)};",
            f'const own = evaluator(model, await numbers({{ bits: 64, data: "{numbers}" }}));',
            "",
            (_HERE / "module.js").read_text(encoding="utf-8"),
        ]
    )


def _packed(fitted: Fitted) -> tuple[dict[str, Any], str]:
    packer = Packer()
    data = packed(describe(model_of(fitted), pure=True), packer)
    return data, packer.text()["data"]


def to_c(fitted: Fitted, *, prefix: str = "ahofm") -> str:
    """Write a model as one header of C99 that allocates nothing.

    Parameters
    ----------
    fitted : estimator or model
        Fitted.
    prefix : str, default "ahofm"
        What names begin with, so that one program can hold several models.

    Returns
    -------
    str
        A header with ``ahofm_predict``, ``ahofm_probabilities`` (of classes, or of levels in an order),
        ``ahofm_linear_predictors`` and ``ahofm_contributions``; it needs ``math.h``
        and ``string.h``.

    Raises
    ------
    ValueError
        Where ``prefix`` is no identifier of C.

    Examples
    --------
    >>> from ahofm.export import to_c
    >>> "static inline void yield_predict(const yield_cell *row" in to_c(model, prefix="yield")
    True
    """
    if not re.fullmatch(r"[a-zA-Z][a-zA-Z0-9_]*", prefix):
        raise ValueError(f"prefix must be letters, digits and underscores, with a letter in front, got {prefix!r}")
    description = describe(model_of(fitted), pure=True)
    evaluator = (_HERE / "evaluator.h").read_text(encoding="utf-8").replace("{{data}}", _c_data(description))
    comment = [f"Written by ahofm {version('ahofm')}. The cells of a row:"]
    comment += [
        f"  {j}: {'text' if column.text else 'number'}, {json.dumps(column.name)}"
        for j, column in enumerate(description.columns)
    ]
    if description.classes is not None:
        classes = ", ".join(json.dumps(label) for label in description.classes)
        comment.append(
            f"Classes: {classes}" + ("" if len(description.labels) > 1 else "; the mean is that of the last")
        )
    if description.mean.levels:
        comment.append(f"Levels: {', '.join(map(str, description.mean.levels))}")
    guard = f"{prefix.upper()}_H"
    text = "\n".join(
        [
            "/* " + "\n   ".join(comment).replace("*/", "* /").replace("/*", "/ *") + " */",
            f"#ifndef {guard}",
            f"#define {guard}",
            "#include <math.h>",
            "#include <stddef.h>",
            "#include <string.h>",
            "",
            evaluator,
            f"#endif /* {guard} */",
            "",
        ]
    )
    head, rest = text.split("#include <string.h>", 1)
    return head + "#include <string.h>" + rest.replace("AHOFM_", f"{prefix.upper()}_").replace("ahofm_", f"{prefix}_")


def _c_data(description: Description) -> str:
    lines: list[str] = []
    n_groups = len(description.groups)
    orders = [0 if group.order == PRODUCT else group.order for group in description.groups]
    states = sum((order + 1) * group.rank for order, group in zip(orders, description.groups, strict=True))
    nodes, weights = description.quadrature() if 0 in orders else (np.zeros(1), np.zeros(1))
    mean, several = description.mean, description.mean.name == "softmax"
    sizes = {
        "COLUMNS": len(description.columns),
        "FUNCTIONS": description.n_functions,
        "LINEAR_PREDICTORS": len(description.labels),
        "MEANS": len(description.labels) if several else 1,
        "PROBABILITIES": len(description.probabilities()),
        "THRESHOLDS": len(mean.thresholds),
        "GROUPS": n_groups,
        "STATES": max(states, 1),
        "MOST_ORDER": max([*orders, 1]),
        "NODES": len(nodes),
    }
    lines += [f"#define AHOFM_{name} {size}" for name, size in sizes.items()]
    lines.append(f"#define AHOFM_SHIFT {mean.shift!r}")
    lines.append(f"#define AHOFM_MEAN(e) {_MEANS[mean.name]}")
    lines += [f"#define AHOFM_LOWEST_LEVEL {mean.low}.0", _c_array("thresholds", mean.thresholds)]
    lines.append(_c_array("intercepts", description.intercepts))
    lines.append(_c_array("bases", [base(description, k) for k in range(len(description.labels))]))
    lines += [_c_array("nodes", nodes), _c_array("weights", weights)]
    columns = [_c_column(column, j, lines) for j, column in enumerate(description.columns)]
    lines.append("static const ahofm_column ahofm_columns[] = {" + ",\n".join(columns) + "};")
    groups = [
        _c_group(group, order, g, lines)
        for g, (group, order) in enumerate(zip(description.groups, orders, strict=True))
    ]
    lines.append("static const ahofm_group ahofm_groups[] = {" + ",\n".join(groups or ["{0, 0, 0, NULL, NULL}"]) + "};")
    return "\n".join(lines)


def _c_column(column: Column, j: int, lines: list[str]) -> str:
    """The column's arrays, and what refers to them: the fields of a column in their order."""

    def put(name: str, values: Any) -> str:
        lines.append(_c_array(f"{name}_{j}", values))
        return f"ahofm_{name}_{j}"

    if isinstance(column, NumberColumn):
        at, nodes = column, column.nodes
        fields: list[Any] = [0, len(at.breaks), at.values.shape[1], 0 if nodes is None else len(nodes.x)]
        fields += [repr(float(at.start)), repr(float(at.period or 0.0))]
        fields += [
            put("places", at.breaks),
            put("scales", at.scales),
            put("shifts", at.shifts),
            put("values", at.values),
        ]
        fields += [put("missing", at.missing), "NULL"]
        fields += ["NULL", "NULL"] if nodes is None else [put("node_places", nodes.x), put("node_values", nodes.values)]
        return "{" + ", ".join(map(str, [*fields, "NULL"])) + "}"
    fields = [2 if column.text else 1, len(column.levels), 1, 0, "0.0", "0.0"]
    order = _byte_order(column)
    places = "NULL" if column.text else put("places", column.levels)
    fields += [places, "NULL", "NULL", put("values", column.values[order])]
    fields += [put("missing", column.missing), put("unseen", column.unseen), "NULL", "NULL"]
    levels = "NULL"
    if column.text:
        texts = [_c_text(column.levels[k]) for k in order] or ["NULL"]
        lines.append(f"static const char *const ahofm_levels_{j}[] = {{" + ",\n".join(texts) + "};")
        levels = f"ahofm_levels_{j}"
    return "{" + ", ".join(map(str, [*fields, levels])) + "}"


def _byte_order(column: LevelColumn) -> Sequence[int]:
    """In which strcmp finds levels of text."""
    if not column.text:
        return range(len(column.levels))
    bad = [level for level in column.levels if "\0" in level]
    if bad:
        raise ValueError(f"column {column.name!r}: the level {bad[0]!r} has a NUL, which ends a text in C")
    return sorted(range(len(column.levels)), key=lambda k: str(column.levels[k]).encode())


def _c_group(group: Group, order: int, g: int, lines: list[str]) -> str:
    lines.append(_c_array(f"loadings_{g}", group.loadings))
    means = "NULL"
    if group.means is not None:
        lines.append(_c_array(f"means_{g}", group.means))
        means = f"ahofm_means_{g}"
    return f"{{{order}, {group.first}, {group.rank}, ahofm_loadings_{g}, {means}}}"


def _c_array(name: str, values: Floats | Sequence[float]) -> str:
    numbers = [repr(float(value)) for value in np.ravel(values)] or ["0.0"]
    return f"static const double ahofm_{name}[] = {{{_wrapped(numbers)}}};"


def _wrapped(cells: Sequence[str], per_line: int = 16) -> str:
    rows: Iterable[Sequence[str]] = (cells[at : at + per_line] for at in range(0, len(cells), per_line))
    return ",\n".join(",".join(row) for row in rows)


def _c_text(level: str) -> str:
    """Bytes beyond plain letters as octal escapes of three digits, which no digit behind them can extend."""
    plain = "".join(chr(byte) if chr(byte).isalnum() and byte < 128 else f"\\{byte:03o}" for byte in level.encode())
    return f'"{plain}"'

"""Statements for databases other than those that are tested, by sqlglot."""

from __future__ import annotations

import difflib


def translated(statement: str, dialect: str) -> str:
    """Translate a statement for PostgreSQL.

    Parameters
    ----------
    statement : str
    dialect : str
        A name that sqlglot knows.

    Returns
    -------
    str

    Raises
    ------
    ValueError
        Where there is no such dialect, or it lacks what the statement needs.
    """
    try:
        import sqlglot  # noqa: PLC0415 - other dialects than the tested ones need it
        from sqlglot import exp  # noqa: PLC0415 - likewise
    except ImportError as error:
        raise ImportError(f"dialect={dialect!r} is translated by sqlglot: pip install 'ahofm[export]'") from error
    known = sorted(str(name.value) for name in sqlglot.Dialects if name.value)
    if dialect not in known:
        near = difflib.get_close_matches(dialect, known, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else f"; known are {', '.join(known)}"
        raise ValueError(f"dialect={dialect!r} is not known{hint}")
    tree = sqlglot.parse_one(statement, read="postgres")
    for step in tree.find_all(exp.CTE):
        step.set("materialized", None)  # a hint of PostgreSQL's
    try:
        return str(tree.sql(dialect=dialect, unsupported_level=sqlglot.ErrorLevel.RAISE))
    except sqlglot.errors.UnsupportedError as error:
        said = str(error).splitlines()[0]
        raise ValueError(f"dialect={dialect!r} lacks what the statement needs: {said}; export to ONNX or C") from error

"""Rating tables as sheets of a workbook, with formats, totals and charts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ahofm.columns.basis import Floats

_LONGEST = 31
"""Characters of a sheet's name."""

_MOST_BARS = 60
"""Levels that a chart can show."""

_RULES = {
    "relativity": "prediction = prediction at the base levels x one relativity of each table (x exposure)",
    "odds ratio": "odds of the prediction = odds at the base levels x one odds ratio of each table",
    "difference": "linear predictor = linear predictor at the base levels + one difference of each table",
}
"""How the tables make a prediction, by what their entries are called."""


def write_workbook(path: Path, scale: str, base_mean: float, tables: Sequence[Any]) -> None:
    """Write a sheet with the base, one for each column, and a grid for each pair.

    Parameters
    ----------
    path : Path
    scale : str
        What entries are called.
    base_mean : float
    tables : sequence of RatingTable

    Raises
    ------
    ImportError
        Without openpyxl.
    """
    try:
        from openpyxl import Workbook  # noqa: PLC0415 - who writes workbooks needs it
    except ImportError as error:
        raise ImportError("to_excel needs the package openpyxl: pip install 'ahofm[export]'") from error
    book, taken = Workbook(), {"base"}
    front = book.active
    front.title = "base"
    names = [_sheet_name(" x ".join(table.columns), taken) for table in tables]
    _Front(front, scale).write(base_mean, tables, names)
    for table, name in zip(tables, names, strict=True):
        own = _ColumnSheet if len(table.columns) == 1 else _PairSheet
        own(book.create_sheet(name), scale).write(table)
    with path.open("wb") as file:
        book.save(file)


@dataclass(frozen=True)
class Formats:
    """Number formats of a table: about four digits of means and differences, three decimals of relativities."""

    scale: str

    def relative(self, values: Floats) -> str:
        """Of entries."""
        return _format(np.abs(values).max(initial=0.0)) if self.scale == "difference" else "0.000"

    @staticmethod
    def exposure(values: Floats) -> str:
        """Of weights: whole numbers stay whole."""
        there = values[np.isfinite(values)]
        if (there == np.round(there)).all():
            return "#,##0"
        return "#,##0.0" if there.sum() >= 100.0 else "0.000"

    @staticmethod
    def mean(values: Floats | None) -> str:
        """Of observed and fitted means."""
        there = np.zeros(0) if values is None else np.abs(values[np.isfinite(values)])
        return _format(float(np.median(there)) if len(there) else 0.0)


def _format(size: float) -> str:
    decimals = 3 - int(np.floor(np.log10(size))) if size > 0.0 else 3
    return "#,##0" if decimals <= 0 else "#,##0." + "0" * min(decimals, 8)


class _Sheet:
    """A sheet that is written row by row."""

    def __init__(self, sheet: Any, scale: str) -> None:
        from openpyxl.styles import Alignment, Border, Font, PatternFill, Side  # noqa: PLC0415 - as above

        self.sheet, self.scale, self.formats, self.at = sheet, scale, Formats(scale), 0
        self.widths: dict[int, int] = {}
        self.bold, self.title = (Font(name="Calibri", bold=True, size=size) for size in (11, 14))
        self.head, self.marked = PatternFill("solid", fgColor="DCE6F1"), PatternFill("solid", fgColor="FFF2CC")
        self.line, self.above = Border(bottom=Side(style="thin")), Border(top=Side(style="thin"))
        self.right, self.left = Alignment(horizontal="right"), Alignment(horizontal="left")
        self.apart = Alignment(horizontal="left", indent=1)
        sheet.page_setup.orientation, sheet.page_setup.fitToHeight = "landscape", 0
        sheet.sheet_properties.pageSetUpPr.fitToPage = True

    def put(self, cells: Sequence[Any], formats: Sequence[str | None] = ()) -> list[Any]:
        """One more row: numbers in their formats, text as text; what Excel cannot hold is empty."""
        self.at += 1
        found = []
        for column, value in enumerate(cells, start=1):
            own = formats[column - 1] if column <= len(formats) else None
            cell = self.sheet.cell(row=self.at, column=column)
            if isinstance(value, str):
                _put_text(cell, value)
                shown = len(value)
            elif value is not None and np.isfinite(value):
                cell.value, cell.number_format = float(value), own or "General"
                shown = len(_shown(float(value), own))
            else:
                shown = 0
            self.widths[column] = max(self.widths.get(column, 0), shown)
            found.append(cell)
        return found

    def header(self, cells: Sequence[Any], formats: Sequence[str | None] = ()) -> None:
        """Names of columns, those of numbers at the right."""
        for at, cell in enumerate(self.put(cells, formats)):
            cell.font, cell.fill, cell.border = self.bold, self.head, self.line
            cell.alignment = self.right if at else self.left

    def fit(self, most: int = 40) -> None:
        """Columns as wide as what they show."""
        from openpyxl.utils import get_column_letter  # noqa: PLC0415 - as above

        for column, shown in self.widths.items():
            self.sheet.column_dimensions[get_column_letter(column)].width = min(max(shown, 6), most) + 2


class _Front(_Sheet):
    """What all tables share, and a list of them."""

    def write(self, base_mean: float, tables: Sequence[Any], names: Sequence[str]) -> None:
        first = tables[0] if tables else None
        self.put(["Rating tables"])[0].font = self.title
        self.put([])
        self.put(["prediction at the base levels", base_mean], [None, _format(abs(base_mean))])
        if first is not None:
            total = _total(first)
            self.put(["exposure", total[0]], [None, self.formats.exposure(first.exposure)])
            for name, value in zip(("observed mean", "fitted mean"), total[1:], strict=True):
                if np.isfinite(value):
                    self.put([name, value], [None, self.formats.mean(first.fitted)])
        self.put(["entries", self.scale])[1].alignment = self.right
        self.put([])
        _put_text(self.sheet.cell(row=self.at + 1, column=1), _RULES[self.scale])  # over several columns
        self.at += 2
        self.header(["table", "base level", "entries", "smallest", "largest", "sheet"])
        self.sheet.cell(row=self.at, column=6).alignment = self.apart
        for table, name in zip(tables, names, strict=True):
            ends = [float(table.relative.min()), float(table.relative.max())]
            of_entries = self.formats.relative(table.relative)
            row = [" x ".join(table.columns), " x ".join(table.base), len(table.keys), *ends, name]
            cells = self.put(row, [None, None, "#,##0", of_entries, of_entries, None])
            cells[1].alignment = self.right
            cells[5].hyperlink, cells[5].style = f"#'{name}'!A1", "Hyperlink"  # names have no quotes
            cells[5].alignment = self.apart
        self.fit()


class _ColumnSheet(_Sheet):
    """The table of a column: a row for each level, the base marked, totals, and a chart of observed and fitted."""

    def write(self, table: Any) -> None:
        cut = table.values[0] is not None and any(" to " in key for (key,) in table.keys)
        known = table.observed is not None
        head = [table.columns[0], *(["at"] if cut else []), "exposure", "share"]
        head += ["observed", "fitted", "observed / fitted"] if known else []
        of_mean, exposure = self.formats.mean(table.fitted), self.formats.exposure(table.exposure)
        formats = [
            None,
            *(["General"] if cut else []),
            exposure,
            "0.0%",
            *([of_mean, of_mean, "0.00"] if known else []),
        ]
        formats.append(self.formats.relative(table.relative))
        self.header([*head, self.scale])
        whole = max(float(table.exposure.sum()), 1e-300)
        for at, (key,) in enumerate(table.keys):
            value = None if table.values[0] is None else float(table.values[0][at])
            plain = value is not None and np.isfinite(value) and " to " not in key
            means = (
                [table.observed[at], table.fitted[at], _ratio(table.observed[at], table.fitted[at])] if known else []
            )
            middle = [] if not cut else [None if value is None else float(f"{value:.5g}")]
            row = [value if plain else key, *middle, table.exposure[at], table.exposure[at] / whole, *means]
            cells = self.put([*row, table.relative[at]], formats)
            cells[0].alignment = self.left
            if key == table.base[0]:
                for cell in cells:
                    cell.font, cell.fill = self.bold, self.marked
        total, observed, fitted = _total(table)
        means = [observed, fitted, _ratio(observed, fitted)] if known else []
        for cell in self.put(["all", *([None] if cut else []), total, 1.0, *means], formats):
            cell.font, cell.border = self.bold, self.above
        self.put([])
        _put_text(self.sheet.cell(row=self.at + 1, column=1), f"base level: {table.base[0]}")
        self.fit()
        self.sheet.freeze_panes, self.sheet.print_title_rows = "B2", "1:1"
        if known and len(table.keys) <= _MOST_BARS:
            self._chart(len(table.keys), 2 + cut)

    def _chart(self, rows: int, exposure: int) -> None:
        """Bars of exposure, with lines of observed and fitted means on an axis of their own."""
        from openpyxl.chart import BarChart, LineChart, Reference  # noqa: PLC0415 - as above
        from openpyxl.utils import get_column_letter  # noqa: PLC0415 - likewise

        def column(at: int, start: int = 1) -> Any:
            return Reference(self.sheet, min_col=at, min_row=start, max_row=rows + 1)

        bars, lines = BarChart(), LineChart()
        bars.add_data(column(exposure), titles_from_data=True)
        bars.set_categories(column(1, 2))
        bars.series[0].graphicalProperties.solidFill = "D9D9D9"
        for at, colour in ((exposure + 2, "C0504D"), (exposure + 3, "1F497D")):
            lines.add_data(column(at), titles_from_data=True)
            own = lines.series[-1]
            own.graphicalProperties.line.solidFill, own.graphicalProperties.line.width = colour, 22000
            own.smooth = False
        bars.title, bars.gapWidth, bars.legend.position = None, 30, "b"
        bars.y_axis.title, lines.y_axis.title = "exposure", "mean"
        bars.y_axis.majorGridlines, bars.y_axis.scaling.min, lines.y_axis.axId = None, 0.0, 200
        lines.y_axis.crosses, lines.y_axis.number_format = "max", "General"
        for axis in (bars.x_axis, bars.y_axis, lines.y_axis):
            axis.delete = False
        bars += lines
        bars.width, bars.height = 22, 11
        self.sheet.add_chart(bars, f"{get_column_letter(exposure + 7)}2")


class _PairSheet(_Sheet):
    """Grids of a pair, one below another: rows are levels of the first column."""

    def write(self, table: Any) -> None:
        from openpyxl.formatting.rule import ColorScaleRule  # noqa: PLC0415 - as above
        from openpyxl.utils import get_column_letter  # noqa: PLC0415 - likewise

        first, second = (list(dict.fromkeys(own)) for own in zip(*table.keys, strict=True))
        middle, (rows, columns) = (0.0 if self.scale == "difference" else 1.0), table.columns
        for name, part, form in self._parts(table):
            title = f"{name}: {rows} (rows) x {columns} (columns)"
            _put_text(self.sheet.cell(row=self.at + 1, column=1), title)
            self.sheet.cell(row=self.at + 1, column=1).font = self.bold
            self.at += 1
            self.header([rows, *_labels(second, table.values[1])])
            top = self.at + 1
            grid = np.asarray(part).reshape(len(first), len(second))
            for level, label, numbers in zip(first, _labels(first, table.values[0], len(second)), grid, strict=True):
                cells = self.put([label, *numbers], [None, *([form] * len(second))])
                cells[0].font, cells[0].alignment = self.bold, self.left
                if level == table.base[0]:
                    cells[0].fill = self.marked
            if name == self.scale and np.ptp(grid) > 0.0:
                away = float(np.abs(grid - middle).max())
                rule = ColorScaleRule(
                    start_type="num", start_value=middle - away, start_color="8DB4E2",
                    mid_type="num", mid_value=middle, mid_color="FFFFFF",
                    end_type="num", end_value=middle + away, end_color="F4B183",
                )  # fmt: skip
                self.sheet.conditional_formatting.add(f"B{top}:{get_column_letter(len(second) + 1)}{self.at}", rule)
            self.put([])
        _put_text(self.sheet.cell(row=self.at + 1, column=1), f"base levels: {' x '.join(table.base)}")
        self.fit(24)
        self.sheet.freeze_panes = "B1"

    def _parts(self, table: Any) -> Iterator[tuple[str, Floats, str]]:
        """What there is to show, with formats."""
        yield self.scale, table.relative, self.formats.relative(table.relative)
        if np.isfinite(table.exposure).any():
            yield "exposure", table.exposure, self.formats.exposure(table.exposure)
        for name, part in (("observed", table.observed), ("fitted", table.fitted)):
            if part is not None:
                yield name, part, self.formats.mean(table.fitted)


def _labels(levels: Sequence[str], values: Floats | None, step: int = 1) -> list[Any]:
    """Levels that are numbers as numbers; ``values`` are those of all cells, ``step`` of them to a level."""
    if values is None:
        return list(levels)
    own = values[::step][: len(levels)]
    return [v if np.isfinite(v) and " to " not in name else name for name, v in zip(levels, own.tolist(), strict=True)]


def _total(table: Any) -> tuple[float, float, float]:
    """Exposure of all rows, and means of observed and fitted; NaN where these are not known."""
    whole = float(table.exposure.sum())
    there = table.exposure > 0.0

    def mean(values: Floats | None) -> float:
        return np.nan if values is None or whole <= 0.0 else float(values[there] @ table.exposure[there]) / whole

    return whole, mean(table.observed), mean(table.fitted)


def _ratio(observed: float, fitted: float) -> float | None:
    return None if not fitted > 0.0 else float(observed) / float(fitted)


def _shown(value: float, form: str | None) -> str:
    """About as Excel shows a number: its width is what matters."""
    if form is None or form == "General":
        return f"{value:.10g}"
    decimals = len(form.partition(".")[2].rstrip("%"))
    return f"{value:,.{decimals}f}" + ("%" if form.endswith("%") else "")


def _put_text(cell: Any, text: str) -> None:
    """Text that stays text: without control characters, and never a formula."""
    cell.value = re.sub(r"[\x00-\x08\x0b\x0c\x0e-\x1f]", "?", text)
    cell.data_type = "s"
    cell.quotePrefix = text.startswith(("=", "+", "-", "@"))


def _sheet_name(name: str, taken: set[str]) -> str:
    """Short enough, of allowed characters, and there once."""
    plain = re.sub(r"[\[\]:*?/\\\x00-\x1f']", "_", name)[:_LONGEST] or "_"
    found, count = plain, 1
    while found.lower() in taken:
        count += 1
        ending = f" ({count})"
        found = plain[: _LONGEST - len(ending)] + ending
    taken.add(found.lower())
    return found

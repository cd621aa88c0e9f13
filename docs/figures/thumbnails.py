"""Thumbnails of the gallery: one panel of each figure, large enough to be read on its card.

``make gallery`` runs it after the examples. A figure without an entry in ``PANELS`` is its own thumbnail.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

GALLERY = Path(__file__).parent / "gallery"

PANELS = {
    "cancer": (0.0, 0.0, 0.333, 0.5),
    "claims": (0.0, 0.5, 0.343, 1.0),
    "credit": (0.337, 0.0, 0.668, 1.0),
    "diabetes": (0.262, 0.04, 0.497, 0.522),
    "lifetimes": (0.335, 0.0, 0.668, 1.0),
    "paper_toy": (0.0, 0.0, 0.532, 0.5),
    "ratings": (0.0, 0.0, 0.331, 1.0),
    "shares": (0.0, 0.0, 0.308, 1.0),
    "space_time": (0.69, 0.0, 0.91, 0.5),
    "spread": (0.372, 0.0, 0.68, 1.0),
    "tariff": (0.243, 0.0, 0.464, 1.0),
    "wide": (0.0, 0.0, 0.503, 1.0),
    "zeros": (0.0, 0.0, 0.338, 1.0),
}
"""The panel that shows what an example is about: its left, upper, right and lower ends, as fractions of the figure."""

WIDTH, HEIGHT = 420, 300
"""Of a thumbnail, in pixels; a panel of another shape has white at its sides."""


def thumbnail(figure: Image.Image, panel: tuple[float, float, float, float]) -> Image.Image:
    """A panel without the white around it, fitted into the thumbnail."""
    wide, high = figure.size
    left, upper, right, lower = panel
    part = figure.convert("RGB").crop((int(left * wide), int(upper * high), int(right * wide), int(lower * high)))
    ink = np.asarray(part).min(axis=2) < 250
    rows, columns = np.flatnonzero(ink.any(axis=1)), np.flatnonzero(ink.any(axis=0))
    part = part.crop((int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1))
    scale = min((WIDTH - 16) / part.width, (HEIGHT - 16) / part.height)
    part = part.resize((round(scale * part.width), round(scale * part.height)), Image.Resampling.LANCZOS)
    paper = Image.new("RGB", (WIDTH, HEIGHT), "white")
    paper.paste(part, ((WIDTH - part.width) // 2, (HEIGHT - part.height) // 2))
    return paper


def main() -> None:
    """Write all thumbnails."""
    folder = GALLERY / "thumbnails"
    folder.mkdir(exist_ok=True)
    for name, panel in PANELS.items():
        with Image.open(GALLERY / f"{name}.png") as figure:
            colours = thumbnail(figure, panel).quantize(128)
        colours.save(folder / f"{name}.png", optimize=True)


if __name__ == "__main__":
    main()

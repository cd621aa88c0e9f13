"""The data sets of the benchmarks: where their files are, what is predicted, and how rows are split.

Files are read from a folder: the one that is given, or that the environment variable ``AHOFM_DATA`` names. Without
a folder, sets that have a number at OpenML come from there, or from scikit-learn; their sizes are checked.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.datasets import fetch_california_housing, fetch_openml, load_diabetes
from sklearn.model_selection import train_test_split

from ahofm.columns.basis import Floats

FOLDER = "AHOFM_DATA"
"""The environment variable that names the folder of data files."""

Family: TypeAlias = Literal["gaussian", "poisson", "binomial", "multinomial"]


@dataclass(frozen=True)
class Rows:
    """Columns and targets; where there are exposures, targets are counts within them."""

    X: pd.DataFrame
    y: Floats
    exposure: Floats | None = None

    def take(self, at: NDArray[np.intp]) -> Rows:
        """Some of them."""
        return Rows(self.X.iloc[at], self.y[at], None if self.exposure is None else self.exposure[at])


@dataclass(frozen=True)
class DataSet:
    """A file, its target, how many splits are usual, and the number of its copy at OpenML (0: none known)."""

    file: str
    target: str
    n_splits: int
    shape: tuple[int, int]
    drop: str = ""
    log: bool = False
    family: Family = "gaussian"
    exposure: str = ""
    openml: int = 0

    def read(self, folder: Path | None = None) -> Rows:
        """All rows."""
        folder = folder or (Path(os.environ[FOLDER]) if FOLDER in os.environ else None)
        table = self._fetch() if folder is None else pd.read_csv(folder / self.file)
        y = table[self.target].to_numpy(np.float64)
        exposure = table[self.exposure].to_numpy(np.float64) if self.exposure else None
        X = table.drop(columns=[name for name in (self.target, self.drop, self.exposure) if name])
        if X.shape != self.shape:
            raise ValueError(f"{self.file} should have {self.shape} rows and columns of features, not {X.shape}")
        return Rows(X, np.log1p(y) if self.log else y, exposure)

    def split(self, number: int, folder: Path | None = None) -> tuple[Rows, Rows]:
        """Nine tenths of the rows for training, and the others."""
        rows = self.read(folder)
        train, test = train_test_split(np.arange(len(rows.y)), test_size=0.1, random_state=number)
        return rows.take(train), rows.take(test)

    def _fetch(self) -> pd.DataFrame:
        """From scikit-learn or OpenML, with the names that the files have."""
        if self.file == "diabetes.csv":
            return load_diabetes(as_frame=True, scaled=False).frame
        if self.file.startswith("california"):
            return fetch_california_housing(as_frame=True).frame
        if not self.openml:
            raise ValueError(f"no folder with {self.file} is given: --data-dir, or the environment variable {FOLDER}")
        found = fetch_openml(data_id=self.openml, as_frame=True, parser="auto")
        return found.frame.rename(columns={name: name.replace(" ", "_").replace("-", "_") for name in found.frame})


DATA = {
    "airfoil": DataSet("airfoil.csv", "scaled_sound_pressure", 10, (1503, 5)),
    "concrete": DataSet("concrete.csv", "Concrete_compressive_strength", 10, (1030, 8)),
    "diabetes": DataSet("diabetes.csv", "target", 10, (442, 10)),
    "energy": DataSet("energy.csv", "Y1", 10, (768, 8), drop="Y2"),
    "forest fires": DataSet("forest_fires.csv", "area", 10, (517, 12), log=True, openml=44962),
    "naval": DataSet("naval.csv.gz", "GT_compressor_decay", 10, (11934, 16), drop="GT_turbine_decay"),
    "yacht": DataSet("yacht.csv", "Residuary_resistance", 10, (308, 6)),
    "california": DataSet("california_housing.csv.gz", "MedHouseVal", 3, (20640, 8)),
    "power plant": DataSet("power_plant.csv", "PE", 3, (9568, 4)),
    "bike sharing": DataSet("bike_sharing_hour.csv", "cnt", 3, (17379, 12)),
    "wine": DataSet("wine_quality.csv", "quality", 3, (6497, 12)),
    "bike counts": DataSet("bike_sharing_hour.csv", "cnt", 3, (17379, 12), family="poisson"),
    "adult": DataSet("adult.csv.gz", "income", 3, (48842, 14), family="binomial"),
    "claims": DataSet(
        "freMTPL2freq.csv.gz", "ClaimNb", 1, (678013, 9), family="poisson", exposure="Exposure", openml=41214
    ),
}

_CALENDAR = (
    ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"),
    ("mon", "tue", "wed", "thu", "fri", "sat", "sun"),
)


def is_text(column: pd.Series) -> bool:
    """Whether a column has levels rather than numbers."""
    return not pd.api.types.is_numeric_dtype(column)


def levels(table: pd.DataFrame, like: pd.DataFrame | None = None) -> pd.DataFrame:
    """Text as categories, as trees want it: those of the training rows."""
    out = table.copy()
    for name in filter(lambda name: is_text(table[name]), table.columns):
        known, values = (table if like is None else like)[name].astype(str).unique(), table[name].astype(str)
        out[name] = pd.Categorical(values.where(values.isin(known)), categories=sorted(known))
    return out


def numbers(table: pd.DataFrame, like: pd.DataFrame | None = None) -> pd.DataFrame:
    """Text as numbers: months and days in their order, other levels of the training rows in that of the alphabet."""
    out = table.copy()
    for name in filter(lambda name: is_text(table[name]), table.columns):
        known = sorted((table if like is None else like)[name].astype(str).unique())
        order = next((names for names in _CALENDAR if set(known) <= set(names)), tuple(known))
        out[name] = table[name].astype(str).map({level: place for place, level in enumerate(order)}).fillna(-1.0)
    return out.astype(np.float64)

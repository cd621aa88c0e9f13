"""A store of codes: a folder that a fit reads in passes, in the place of a table in memory."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ahofm.columns import Encoder, Learned
from ahofm.columns.encode import Kinds
from ahofm.rows import RawSample, Target, ThreadExecutor, raw_sample_rows
from ahofm.scale.batch import joined
from ahofm.scale.parts import StoreError, StoreSource, part_path
from ahofm.scale.plan import MANIFEST, PLAN, Plan, load_manifest
from ahofm.scale.raw_sample import load_raw_sample, raw_sample_path

_UNITS = {"": 1, "B": 1, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}


@dataclass(frozen=True)
class CodeStore:
    """Coded rows on disk, which any estimator fits: ``AHOFMRegressor().fit(store)``.

    Make one with :meth:`build`, come back to it with :meth:`open`.

    Attributes
    ----------
    folder : path
    plan : Plan
        What is known of the rows.
    memory_limit : int
        In bytes: what reading ahead keeps to.
    """

    folder: Path
    plan: Plan
    memory_limit: int = field(default=2 * 10**9)

    named = True

    @classmethod
    def build(
        cls,
        folder: Any,
        data: Any,
        *,
        target: str,
        weight: str | None = None,
        offset: str | Sequence[str] | None = None,
        drop: Sequence[str] = (),
        columns: Kinds = None,
        max_codes: int | None = None,
        encoder: Encoder | None = None,
        missing: Sequence[str] = (),
        memory_limit: str | int = "2GB",
        chunk_rows: int | None = None,
        n_threads: int | None = None,
        verbose: int = 0,
    ) -> CodeStore:
        """Code files into a store: one pass learns the columns, one writes codes.

        A store that is there already, of the same files and settings, is opened; one that a kill left behind is
        completed. Rows of weight zero are left out.

        Parameters
        ----------
        folder : path
            Is made if need be.
        data : path or list of paths
            Parquet, Feather or CSV files with the same columns, or folders of them.
        target : str
            Column of targets. A target of text, or of at most 1,000 different numbers, may be fitted as classes.
        weight : str, optional
            Column of weights.
        offset : str or list of str, optional
            Columns that are added to the linear predictor, or to each of them.
        drop : list of str
            Columns to leave out.
        columns : dict of column to kind, optional
            Columns of numbers that are levels have to be ``Categorical()`` here; other kinds can wait for the fit.
        max_codes : int or None
            As for an estimator. It counts here, not in the fit.
        encoder : Encoder, optional
            Codebooks to use, e.g. ``fitted.model_.encoder``; otherwise they are learned from all rows.
        missing : list of str
            Cells of text files that mean missing, besides the usual ones.
        memory_limit : str or int, default "2GB"
            Bytes, or a text with a unit.
        chunk_rows : int, optional
            Rows that are computed together; chosen by the size of the data.
        n_threads : int, optional
            All cores by default.
        verbose : int, default 0
            1 shows a progress bar.

        Returns
        -------
        CodeStore
            Opened.
        """
        from ahofm.scale.build import Request, build  # noqa: PLC0415 - building knows stores

        offsets = (offset,) if isinstance(offset, str) else tuple(offset or ())
        request = Request(
            Path(folder), data, target, weight, offsets, tuple(drop), columns, max_codes, encoder, tuple(missing),
            bytes_of(memory_limit), chunk_rows, n_threads, bool(verbose),
        )  # fmt: skip
        build(request)
        return cls.open(folder, memory_limit=memory_limit)

    @classmethod
    def open(cls, folder: Any, *, memory_limit: str | int = "2GB") -> CodeStore:
        """Open a store that was built before.

        Parameters
        ----------
        folder : path
            Where the store was built.
        memory_limit : str or int, default "2GB"
            Bytes, or a text with a unit.

        Returns
        -------
        CodeStore

        Raises
        ------
        StoreError
            Unless the store is complete and was made by no newer version.
        """
        folder = Path(folder)
        path = folder / MANIFEST
        if not path.is_file():
            there = (folder / PLAN).is_file()
            what = "is not complete: call build again to finish it" if there else "holds no store of codes"
            raise StoreError(f"{folder} {what}")
        manifest, plan = load_manifest(folder), Plan.load(folder / PLAN)
        if plan.identity != manifest["identity"]:
            raise StoreError(f"{folder / PLAN} belongs to another store; build the store again in an empty folder")
        for part, size in enumerate(manifest["parts"]):
            for file, expected in zip((part_path(folder, part), raw_sample_path(folder, part)), size, strict=True):
                found = file.stat().st_size if file.is_file() else -1
                if found != expected:
                    what = (
                        f"has {found:,} bytes instead of {expected:,}; delete it and" if found >= 0 else "is missing;"
                    )
                    raise StoreError(f"{file} {what} build the store again")
        return cls(folder, plan, bytes_of(memory_limit))

    @property
    def columns(self) -> Sequence[Learned]:
        """What was learned of each column."""
        return self.plan.columns

    @property
    def target(self) -> Target:
        """What is known of the target."""
        return self.plan.target

    @property
    def n_rows(self) -> int:
        """Rows of positive weight."""
        return self.plan.n_rows

    @property
    def total(self) -> float:
        """Sum of the weights."""
        return self.plan.total

    @cached_property
    def source(self) -> StoreSource:
        """All rows."""
        sizes = tuple(column.n_codes for column in self.columns)
        plan = self.plan
        cell = 8 * 2 + sum(1 if size <= 2**8 else 2 if size <= 2**16 else 4 for size in sizes)
        ahead = int(np.clip(self.memory_limit // 16 // (cell * plan.chunk_rows), 1, 8))
        return StoreSource(self.folder, plan.identity, plan.n_rows, plan.n_chunks, sizes, ahead)

    @cached_property
    def raw_sample(self) -> RawSample:
        """Rows whose true values were kept."""
        return joined(
            [load_raw_sample(raw_sample_path(self.folder, part), self.plan, part) for part in range(self.plan.n_parts)]
        )

    def executor(self, n_threads: int | None) -> ThreadExecutor:
        """Make what runs passes over the rows on threads.

        Parameters
        ----------
        n_threads : int or None
            All cores for None.

        Returns
        -------
        ThreadExecutor
        """
        return ThreadExecutor(n_threads)

    def verify(self) -> None:
        """Read everything; raises StoreError when something is not what was written."""
        store = CodeStore.open(self.folder)
        source = replace(store.source)  # none of whose chunks has been read
        rows = sum(source.chunk(index).n_rows for index in range(source.n_chunks))
        if rows != store.n_rows:
            raise StoreError(
                f"{self.folder} has {rows} rows instead of {store.n_rows}; delete it and build the store again"
            )
        raw_sample = store.raw_sample  # whose files are read with it
        if len(raw_sample.y) != len(raw_sample_rows(store.n_rows)):
            raise StoreError(
                f"{self.folder} has a raw sample of {len(raw_sample.y)} rows instead of "
                f"{len(raw_sample_rows(store.n_rows))}; "
                "delete it and build the store again"
            )


def bytes_of(limit: str | int) -> int:
    """Bytes of "2GB" and the like."""
    found = re.fullmatch(r"\s*([0-9.]+)\s*([A-Za-z]*)\s*", str(limit))
    if found is None or found[2].upper() not in _UNITS or not float(found[1]) > 0:
        raise ValueError(f"memory_limit must be a number of bytes or a text such as '2GB', got {limit!r}")
    return int(float(found[1]) * _UNITS[found[2].upper()])

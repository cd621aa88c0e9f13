"""Columns of files before any row is coded: their types, and what is odd about them."""

import numpy as np
import pytest

from ahofm.columns import Categorical
from ahofm.scale import CodeStore, StoreError
from ahofm.scale.files import Files, Roles


def write(path, head, *lines):
    path.write_text("\n".join([head, *lines]) + "\n")
    return path


def test_truth_values_and_numbers_go_together(tmp_path):
    """In one column of several files, and below one another."""
    write(tmp_path / "1.csv", "flag,y", "true,1", "FALSE,2", ",3")
    write(tmp_path / "2.csv", "flag,y", "0,1", "1,2")
    files = Files.of(tmp_path)
    assert files.types == {"flag": "truth", "y": "numbers"}
    found = [piece.table.columns[0] for piece in files.pieces(Roles("y"))]
    np.testing.assert_array_equal(np.concatenate(found), [1.0, 0.0, np.nan, 0.0, 1.0])


def test_a_column_of_nothing_takes_the_type_of_another_file(tmp_path):
    write(tmp_path / "1.csv", "a,y", ",1")
    write(tmp_path / "2.csv", "a,y", "x,1")
    write(tmp_path / "3.csv", "a,y", ",1")
    assert Files.of(tmp_path).types["a"] == "text"
    write(tmp_path / "4.csv", "a,y", "true,1")
    with pytest.raises(TypeError, match=r"column 'a' holds text in .*2\.csv and truth in .*4\.csv"):
        Files.of(tmp_path)


def test_odd_cells_are_known(tmp_path):
    path = write(tmp_path / "t.csv", "a,b,y", "1,x,1", "?,2,2", "2.5,y,3", "-1e3,z,?")
    assert Files.of(path).odd == {"a": (path, 1, "?"), "y": (path, 3, "?")}
    assert Files.of(path, ["?"]).odd == {}


def test_repeated_names_are_refused(tmp_path):
    with pytest.raises(ValueError, match="'a' is there more than once; rename one"):
        Files.of(write(tmp_path / "t.csv", "a,b,a", "1,2,3"))


def test_a_store_of_numbers_with_an_odd_cell_is_refused_unless_it_is_explained(tmp_path):
    path = tmp_path / "rows.csv"
    numbers = [str(k % 7) for k in range(40)]
    path.write_text("a,y\n" + "".join(f"{a},{k}\n" for k, a in enumerate(["?", *numbers])))
    with pytest.raises(StoreError, match=r"column 'a' holds numbers, but '\?' in row 0; give missing=\['\?'\]"):
        CodeStore.build(tmp_path / "store", path, target="y")
    assert not (tmp_path / "store").exists()
    missing = CodeStore.build(tmp_path / "missing", path, target="y", missing=["?"])
    assert [column.missing for column in missing.columns] == [1.0]
    levels = CodeStore.build(tmp_path / "levels", path, target="y", columns={"a": Categorical()})
    assert "?" in levels.columns[0].support.values

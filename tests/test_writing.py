"""Files: whole or not at all, with the permissions of the umask, and nothing left over when writing fails."""

import errno
import os

import pytest

from ahofm import writing
from ahofm.writing import check_writable, replacing


@pytest.fixture
def umask():
    before = os.umask(0o027)
    yield
    os.umask(before)


def mode(path):
    return path.stat().st_mode & 0o777


def test_permissions_are_those_of_open(tmp_path, umask):
    path = tmp_path / "new"
    with replacing(path) as draft:
        draft.write_text("new")
    assert mode(path) == 0o640
    path.chmod(0o600)
    with replacing(path) as draft:
        draft.write_text("again")
    assert mode(path) == 0o600  # one that was there keeps its own
    assert path.read_text() == "again"


def test_links_are_followed(tmp_path):
    (tmp_path / "file").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    with replacing(tmp_path / "link") as draft:
        draft.write_text("new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_text() == "new"


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError, OSError(errno.ENOSPC, "No space left on device")])
def test_a_failure_leaves_what_was_there(tmp_path, error):
    path = tmp_path / "file"
    path.write_text("old")
    expected = type(error) if isinstance(error, OSError) else error

    def fail():
        with replacing(path) as draft:
            draft.write_text("half")
            raise error

    with pytest.raises(expected) as found:
        fail()
    assert path.read_text() == "old"
    assert [item.name for item in tmp_path.iterdir()] == ["file"]
    if isinstance(error, OSError):
        assert str(found.value) == f"cannot write {path}: No space left on device; make room or give another file"
        assert found.value.errno == errno.ENOSPC


def test_an_error_of_another_file_keeps_its_name(tmp_path):
    with pytest.raises(FileNotFoundError, match="elsewhere"), replacing(tmp_path / "file"):
        (tmp_path / "elsewhere").read_text()


def test_a_check_leaves_nothing(tmp_path):
    (tmp_path / "old").write_text("old")
    check_writable(tmp_path / "new")
    check_writable(tmp_path / "old")
    assert [(item.name, item.read_text()) for item in tmp_path.iterdir()] == [("old", "old")]


@pytest.mark.parametrize("attempt", [check_writable, lambda path: replacing(path).__enter__()])
def test_places_where_no_file_can_be(tmp_path, attempt):
    with pytest.raises(FileNotFoundError, match=r"there is no directory .*nowhere; create it first"):
        attempt(tmp_path / "nowhere" / "file")
    with pytest.raises(IsADirectoryError, match="it is a directory; give the name of a file"):
        attempt(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="it is no regular file"):
        attempt(tmp_path / "pipe")


def test_a_full_disk_is_found_by_a_check(tmp_path, monkeypatch):
    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(writing.os, "fsync", full)
    with pytest.raises(OSError, match=r"cannot write .*file: No space left on device"):
        check_writable(tmp_path / "file")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("attempt", [check_writable, lambda path: replacing(path).__enter__()])
def test_a_protected_file_is_not_replaced(tmp_path, monkeypatch, attempt):
    path = tmp_path / "file"
    path.write_text("old")
    monkeypatch.setattr(writing.os, "access", lambda *_: False)  # root may write everything
    with pytest.raises(PermissionError, match="the file is write-protected"):
        attempt(path)

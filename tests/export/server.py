"""A PostgreSQL server for tests: in a temporary folder, on a socket of its own, gone at the end of the process."""

import atexit
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest


def programs_of_postgres() -> Path | None:
    """The newest server's folder of programs; Debian keeps them off the path."""
    found = shutil.which("initdb")
    folders = [Path(found).resolve().parent] if found else []
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: float(path.parent.name), reverse=True)
    return next((folder for folder in folders if (folder / "initdb").exists() and (folder / "pg_ctl").exists()), None)


def _owner() -> Any:
    """PostgreSQL refuses to run as root: another user that is there, or None for this one."""
    import pwd  # noqa: PLC0415 - Windows has none

    if os.getuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    pytest.skip("PostgreSQL does not run as root, and there is no other user")


@lru_cache(maxsize=1)
def running_postgres() -> Callable[[str], str]:
    """Start the server; a function that runs a script of psql, and returns what it prints."""
    programs = programs_of_postgres()
    if programs is None:
        pytest.skip("needs a PostgreSQL server: apt-get install postgresql")
    owner, folder = _owner(), Path(tempfile.mkdtemp(prefix="ahofm-pg-", dir="/tmp"))
    identity: dict[str, Any] = {}
    if owner is not None:
        identity = {"user": owner.pw_uid, "group": owner.pw_gid, "extra_groups": []}
        os.chown(folder, owner.pw_uid, owner.pw_gid)

    def run(*command: Any) -> None:
        subprocess.run(command, check=True, timeout=120, cwd=folder, stdout=subprocess.DEVNULL, **identity)

    data = folder / "data"
    run(programs / "initdb", "-D", data, "-A", "trust", "-U", "ahofm", "-E", "UTF8", "--no-sync")
    options = f"-k {folder} -c listen_addresses='' -c fsync=off -c jit=off"
    run(programs / "pg_ctl", "-D", data, "-o", options, "-l", folder / "log", "-w", "start")

    def stop() -> None:
        subprocess.run(
            [programs / "pg_ctl", "-D", data, "-m", "immediate", "stop"],
            check=False,
            cwd=folder,
            stdout=subprocess.DEVNULL,
            **identity,
        )
        shutil.rmtree(folder, ignore_errors=True)

    atexit.register(stop)

    def script(text: str) -> str:
        command = [
            str(programs / "psql"),
            "-h",
            str(folder),
            "-U",
            "ahofm",
            "-d",
            "postgres",
            "-v",
            "ON_ERROR_STOP=1",
            "-q",
        ]
        done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr[-2000:]
        return str(done.stdout)

    return script

"""PostgreSQL and MariaDB servers for tests: in a temporary folder, on sockets of their own, gone at the end."""

import atexit
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

_MOST_MEMORY = 12 << 30
"""Bytes of data of the MariaDB server."""


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


@lru_cache(maxsize=1)
def running_mariadb() -> Callable[[str], str]:
    """Start the server; a function that runs a script of its client, and returns what it prints."""
    import resource  # noqa: PLC0415 - Windows has none

    programs = [shutil.which(name, path="/usr/sbin:/usr/bin:/usr/local/bin") for name in ("mariadbd", "mariadb")]
    install = shutil.which("mariadb-install-db")
    if install is None or None in programs:
        pytest.skip("needs a MariaDB server: apt-get install mariadb-server")
    server, client = map(str, programs)
    folder = Path(tempfile.mkdtemp(prefix="ahofm-my-", dir="/tmp"))
    data, socket = folder / "data", folder / "socket"
    owner = [] if os.getuid() else ["--user=root"]
    common = ["--no-defaults", f"--datadir={data}", *owner]
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": folder}
    made = [install, *common, "--auth-root-authentication-method=normal", "--skip-test-db"]
    subprocess.run(made, check=True, timeout=120, **quiet)
    options = [f"--socket={socket}", "--skip-networking", "--character-set-server=utf8mb4"]
    process = subprocess.Popen([server, *common, *options], **quiet)
    if hasattr(resource, "prlimit"):  # statements that are too much for it fail
        resource.prlimit(process.pid, resource.RLIMIT_DATA, (_MOST_MEMORY, _MOST_MEMORY))

    def stop() -> None:
        process.kill()
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)

    atexit.register(stop)
    ask = [client, "--no-defaults", f"--socket={socket}", "--user=root", "--batch", "--default-character-set=utf8mb4"]

    def script(text: str) -> str:
        done = subprocess.run(ask, input=text, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stderr[-2000:]
        return str(done.stdout)

    for _ in range(100):
        if process.poll() is not None:
            pytest.skip("the MariaDB server does not start here")
        if subprocess.run([*ask, "-e", "SELECT 1"], check=False, timeout=60, **quiet).returncode == 0:
            script("CREATE DATABASE ahofm;")
            return script
        time.sleep(0.1)
    pytest.skip("the MariaDB server does not answer")

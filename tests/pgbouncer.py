"""A PgBouncer in transaction mode, in front of a server: every transaction may land on another connection."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import tempfile
from pathlib import Path
from types import TracebackType

from psycopg.conninfo import conninfo_to_dict

from rowcall.testing.deadline import eventually
from rowcall.testing.postgres_programs import SystemUser
from rowcall.testing.private_server import free_port
from rowcall.testing.watchdog import Watchdog

# users other than root often have no sbin on their path
FOLDERS = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/usr/local/sbin", "/opt/homebrew/bin"])

SETTINGS = """
[databases]
* = {server}

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = {pool_size}
max_client_conn = 200
"""


class PgBouncer:
    """In front of one server, for all of its databases.

    with PgBouncer(server.url()) as bouncer:
        jobs = Rowcall(bouncer.url("jobs"))
    """

    def __init__(self, server_url: str, *, pool_size: int = 10) -> None:
        program = find_pgbouncer()
        if program is None:
            raise FileNotFoundError("pgbouncer is not installed")
        self._folder = Path(tempfile.mkdtemp(prefix="rowcall-bouncer-"))
        self._port = free_port()
        user = SystemUser.for_servers()
        settings = self._folder / "pgbouncer.ini"
        settings.write_text(SETTINGS.format(server=_server(server_url), port=self._port, pool_size=pool_size))
        settings.chmod(0o644)
        user.own(self._folder)
        with self.log.open("wb") as log:
            self._process = user.start([program, str(settings)], cwd=self._folder, output=log)
        self._watchdog = Watchdog(self._process.pid, by=signal.SIGKILL, remove=[self._folder])

    @property
    def log(self) -> Path:
        return self._folder / "log"

    def url(self, database: str) -> str:
        return f"postgresql://postgres@127.0.0.1:{self._port}/{database}"

    def close(self) -> None:
        self._watchdog.dismiss()
        self._process.kill()
        self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> PgBouncer:
        try:
            eventually(lambda: self._ended() or self._listens(), message="PgBouncer's start")
            if self._ended():
                raise RuntimeError(f"PgBouncer does not start:\n{self.log.read_text(errors='replace')}")
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _ended(self) -> bool:
        return self._process.poll() is not None

    def _listens(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self._port)).close()
        except ConnectionRefusedError:
            return False
        return True


def find_pgbouncer() -> str | None:
    return shutil.which("pgbouncer", path=FOLDERS)


def _server(url: str) -> str:
    """How PgBouncer logs in: as the URL says, to whichever database the client names."""
    parts = conninfo_to_dict(url)
    known = {name: parts[name] for name in ("host", "port", "user", "password") if parts.get(name) is not None}
    return " ".join("{}='{}'".format(name, str(value).replace("'", "''")) for name, value in known.items())

"""A real PostgreSQL server for tests and benchmarks, without root and without a service set up by hand."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from rowcall.testing import postgres_database
from rowcall.testing.postgres_programs import find_programs
from rowcall.testing.private_server import PrivateServer

# quick, and safe against everything but a crash of the operating system
FAST_SETTINGS: Mapping[str, str] = {
    "fsync": "off",
    "full_page_writes": "off",
    "max_connections": "200",
    "max_wal_size": "256MB",
    "shared_buffers": "16MB",  # less to look through when a database is dropped
}
# what PostgreSQL does by default; for measuring
DURABLE_SETTINGS: Mapping[str, str] = {"fsync": "on", "full_page_writes": "on", "synchronous_commit": "on"}

# names a folder in which the first server leaves a copy of its new cluster for the others
CLUSTER = "ROWCALL_TEST_CLUSTER"


class PostgresServer(PrivateServer):
    """A private server. Every user of this machine may connect to it as `postgres`, without a password.

    with PostgresServer() as server:
        jobs = Rowcall(server.create_database())
        server.restart("immediate")
    """

    name = "PostgreSQL"
    signals = MappingProxyType({"fast": signal.SIGINT, "immediate": signal.SIGQUIT})
    longest_socket = ".s.PGSQL.00000"

    def __init__(
        self,
        folder: Path | None = None,
        *,
        settings: Mapping[str, str] = FAST_SETTINGS,
        tcp: bool = True,
        in_memory: bool = False,
    ) -> None:
        super().__init__(folder, settings, tcp=tcp, in_memory=in_memory)
        self._programs: Path | None = None

    def url(self, database: str = "postgres") -> str:
        """Over TCP, on this machine only."""
        if not self._tcp:
            return self.socket_url(database)
        return f"postgresql://postgres@127.0.0.1:{self._started_port()}/{database}"

    def socket_url(self, database: str = "postgres") -> str:
        return f"postgresql://postgres@/{database}?host={self._sockets}&port={self._started_port()}"

    def create_database(self, name: str | None = None) -> str:
        """Create an empty database, and return its URL."""
        return postgres_database.create_database(self.url(), name)

    def drop_database(self, name: str) -> None:
        """Drop a database, even if clients are connected to it."""
        postgres_database.drop_database(self.url(), name)

    def terminate_connections(self, database: str | None = None, *, at_most: int | None = None) -> int:
        """Cut off all clients, the clients of one database, or some at random. Return how many."""
        return postgres_database.terminate_connections(self.url(), database, at_most=at_most)

    def _make_data(self) -> None:
        if self._programs is None:
            self._programs = find_programs(self._user, copies=self._folder)
        if not (self.data / "PG_VERSION").exists():
            self._make_cluster(self._programs)

    def _make_cluster(self, programs: Path) -> None:
        kept = os.environ.get(CLUSTER)
        if kept is not None and os.path.exists(kept):
            subprocess.run(["cp", "-a", kept, str(self.data)], check=True)
            return
        options = ("--username=postgres", "--auth=trust", "--encoding=UTF8", "--no-locale", "--no-sync")
        self._user.run([str(programs / "initdb"), f"--pgdata={self.data}", *options], cwd=self._folder)
        if kept is not None:
            copy = f"{kept}-{os.getpid()}"
            subprocess.run(["cp", "-a", str(self.data), copy], check=True)
            with contextlib.suppress(OSError):  # another process was first
                os.rename(copy, kept)

    def _command(self) -> Sequence[str]:
        assert self._programs is not None
        settings = {
            **self._settings,
            "listen_addresses": "127.0.0.1" if self._tcp else "",
            "port": str(self._port),
            "unix_socket_directories": str(self._sockets),
        }
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        return [str(self._programs / "postgres"), "-D", str(self.data), *options]

    def _ready(self) -> bool:
        try:
            lines = (self.data / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return False
        assert self._process is not None
        return len(lines) >= 8 and lines[0] == str(self._process.pid) and lines[7].strip() == "ready"

"""A real PostgreSQL server for tests and benchmarks, without root and without a service set up by hand."""

from __future__ import annotations

import atexit
import contextlib
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Literal

from rowcall.testing import postgres_database
from rowcall.testing.deadline import eventually
from rowcall.testing.postgres_programs import SystemUser, find_programs
from rowcall.testing.watchdog import Watchdog

StopMode = Literal["fast", "immediate"]

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

PATIENCE_SECONDS = 60.0
LONGEST_SOCKET_PATH = 100
# below the ports that systems hand to outgoing connections: a client that knocks on a stopped server's port
# could otherwise be given that very port, and be connected with itself
PORTS = range(15_000, 32_000)
PORT_TRIES = 10
# names a folder in which the first server leaves a copy of its new cluster for the others
CLUSTER = "ROWCALL_TEST_CLUSTER"
MEMORY = Path("/dev/shm")
MEMORY_NEEDED_BYTES = 2 * 1024**3
SIGNALS: Mapping[StopMode, signal.Signals] = {"fast": signal.SIGINT, "immediate": signal.SIGQUIT}


class PostgresServer:
    """A private server. Every user of this machine may connect to it as `postgres`, without a password.

    with PostgresServer() as server:
        jobs = Rowcall(server.create_database())
        server.restart("immediate")

    Without a folder it lives in a temporary one, which goes with it: on disk, or `in_memory` where there is room.
    Port and socket stay the same over restarts. The server ends with its owner's process, even one that is killed.
    """

    def __init__(
        self,
        folder: Path | None = None,
        *,
        settings: Mapping[str, str] = FAST_SETTINGS,
        tcp: bool = True,
        in_memory: bool = False,
    ) -> None:
        self._temporary: list[Path] = []
        if folder is None:
            folder = self._temporary_folder(MEMORY if in_memory and memory_has_room() else None)
        self._folder = folder.absolute()
        self._settings = dict(settings)
        self._tcp = tcp
        self._port: int | None = None
        self._user = SystemUser.for_servers()
        self._sockets = self._folder
        self._programs: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._watchdog: Watchdog | None = None
        self._owner_pid = os.getpid()

    @property
    def data(self) -> Path:
        return self._folder / "data"

    @property
    def log(self) -> Path:
        """The log of the server, since its first start."""
        return self._folder / "log"

    @property
    def pid(self) -> int | None:
        """The server's first process, while it runs."""
        return self._process.pid if self._process is not None and self.running else None

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def url(self, database: str = "postgres") -> str:
        """Over TCP, on this machine only."""
        if not self._tcp:
            return self.socket_url(database)
        return f"postgresql://postgres@127.0.0.1:{self._started_port()}/{database}"

    def socket_url(self, database: str = "postgres") -> str:
        return f"postgresql://postgres@/{database}?host={self._sockets}&port={self._started_port()}"

    def start(self) -> None:
        """Start, and wait until it accepts connections. Does nothing if the server runs."""
        if self.running:
            return
        self.stop()  # removes what a dead server left
        self._prepare()
        settled = self._port is not None
        for tries_left in reversed(range(PORT_TRIES)):
            if not settled:
                self._port = free_port()
            if self._launch():
                return
            said = self.log.read_text(errors="replace")[-2000:]
            if settled or not tries_left or "Address already in use" not in said:
                raise RuntimeError(f"PostgreSQL does not start; the end of its log:\n{said}")

    def stop(self, mode: StopMode = "fast") -> None:
        """End it: `fast` cuts its clients off and shuts down; `immediate` is a crash."""
        if self._watchdog is not None:
            self._watchdog.dismiss()
            self._watchdog = None
        if self._process is None:
            return
        self._process.send_signal(SIGNALS[mode])
        try:
            self._process.wait(PATIENCE_SECONDS)
        finally:
            self._process.kill()
            self._process.wait()
            self._process = None

    def restart(self, mode: StopMode = "fast") -> None:
        self.stop(mode)
        self.start()

    def close(self) -> None:
        """Stop, and remove the temporary folder."""
        if os.getpid() != self._owner_pid:
            return
        self.stop("immediate" if self._folder in self._temporary else "fast")
        atexit.unregister(self.close)
        while self._temporary:
            shutil.rmtree(self._temporary.pop(), ignore_errors=True)

    def create_database(self, name: str | None = None) -> str:
        """Create an empty database, and return its URL."""
        return postgres_database.create_database(self.url(), name)

    def drop_database(self, name: str) -> None:
        """Drop a database, even if clients are connected to it."""
        postgres_database.drop_database(self.url(), name)

    def terminate_connections(self, database: str | None = None, *, at_most: int | None = None) -> int:
        """Cut off all clients, the clients of one database, or some at random. Return how many."""
        return postgres_database.terminate_connections(self.url(), database, at_most=at_most)

    def __enter__(self) -> PostgresServer:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _prepare(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        if self._programs is None:
            self._programs = find_programs(self._user, copies=self._folder)
        if len(str(self._folder / ".s.PGSQL.00000")) > LONGEST_SOCKET_PATH and self._sockets == self._folder:
            self._sockets = self._temporary_folder()
        self._user.own(self._folder)
        self._user.own(self._sockets)
        atexit.unregister(self.close)
        atexit.register(self.close)
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

    def _launch(self) -> bool:
        assert self._programs is not None
        settings = {
            **self._settings,
            "listen_addresses": "127.0.0.1" if self._tcp else "",
            "port": str(self._port),
            "unix_socket_directories": str(self._sockets),
        }
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        with self.log.open("ab") as log:
            process = self._user.start(
                [str(self._programs / "postgres"), "-D", str(self.data), *options], cwd=self._folder, output=log
            )
        self._process = process
        self._watchdog = Watchdog(process.pid, by=signal.SIGQUIT, remove=self._temporary)
        eventually(lambda: self._ready() or not self.running, within=PATIENCE_SECONDS, message="PostgreSQL's start")
        if self.running:
            return True
        self.stop()
        return False

    def _ready(self) -> bool:
        try:
            lines = (self.data / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return False
        assert self._process is not None
        return len(lines) >= 8 and lines[0] == str(self._process.pid) and lines[7].strip() == "ready"

    def _started_port(self) -> int:
        if self._port is None:
            raise RuntimeError("the server has no address before its first start")
        return self._port

    def _temporary_folder(self, inside: Path | None = None) -> Path:
        folder = Path(tempfile.mkdtemp(prefix="rowcall-pg-", dir=inside))
        self._temporary.append(folder)
        return folder


def free_port() -> int:
    """Return a port that no program listens on, outside the range that clients get."""
    for port in random.sample(PORTS, 100):
        with socket.socket() as candidate:
            candidate.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                candidate.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise RuntimeError("found no free port")


def memory_has_room() -> bool:
    """Return whether a folder in memory can hold what the tests write."""
    return os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free >= MEMORY_NEEDED_BYTES

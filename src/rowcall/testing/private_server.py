"""A database server for tests: in a private folder, started and stopped at will, ended with its owner."""

from __future__ import annotations

import atexit
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Literal, Self

from rowcall.testing.deadline import eventually
from rowcall.testing.postgres_programs import SystemUser
from rowcall.testing.watchdog import Watchdog

StopMode = Literal["fast", "immediate"]

PATIENCE_SECONDS = 60.0
LONGEST_SOCKET_PATH = 100
# below the ports that systems hand to outgoing connections: a client that knocks on a stopped server's port
# could otherwise be given that very port, and be connected with itself
PORTS = range(15_000, 32_000)
PORT_TRIES = 10
MEMORY = Path("/dev/shm")
MEMORY_NEEDED_BYTES = 2 * 1024**3


class PrivateServer(ABC):
    """Without a folder it lives in a temporary one, which goes with it: on disk, or `in_memory` where there is room.

    Port and socket stay the same over restarts. The server ends with its owner's process, even one that is killed.
    """

    name: ClassVar[str]
    signals: ClassVar[Mapping[StopMode, signal.Signals]]
    longest_socket: ClassVar[str]

    def __init__(
        self, folder: Path | None, settings: Mapping[str, str], *, tcp: bool = True, in_memory: bool = False
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
                raise RuntimeError(f"{self.name} does not start; the end of its log:\n{said}")

    def stop(self, mode: StopMode = "fast") -> None:
        """End it: `fast` cuts its clients off and shuts down; `immediate` is a crash."""
        if self._watchdog is not None:
            self._watchdog.dismiss()
            self._watchdog = None
        if self._process is None:
            return
        self._process.send_signal(self.signals[mode])
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

    def __enter__(self) -> Self:
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

    @abstractmethod
    def _make_data(self) -> None:
        """Make the folder of the data, if it is not there."""

    @abstractmethod
    def _command(self) -> Sequence[str]:
        """Return the program and its options."""

    @abstractmethod
    def _ready(self) -> bool:
        """Return whether the server accepts connections."""

    def _prepare(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        if len(str(self._folder / self.longest_socket)) > LONGEST_SOCKET_PATH and self._sockets == self._folder:
            self._sockets = self._temporary_folder()
        self._user.own(self._folder)
        self._user.own(self._sockets)
        atexit.unregister(self.close)
        atexit.register(self.close)
        self._make_data()

    def _launch(self) -> bool:
        with self.log.open("ab") as log:
            process = self._user.start([*self._command()], cwd=self._folder, output=log)
        self._process = process
        self._watchdog = Watchdog(process.pid, by=self.signals["immediate"], remove=self._temporary)
        eventually(lambda: self._ready() or not self.running, within=PATIENCE_SECONDS, message=f"start of {self.name}")
        if self.running:
            return True
        self.stop()
        return False

    def _started_port(self) -> int:
        if self._port is None:
            raise RuntimeError("the server has no address before its first start")
        return self._port

    def _temporary_folder(self, inside: Path | None = None) -> Path:
        folder = Path(tempfile.mkdtemp(prefix="rowcall-db-", dir=inside))
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

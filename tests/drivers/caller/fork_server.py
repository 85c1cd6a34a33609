"""Processes that can be killed, quickly made: one has imported everything, and forks a child for each wish.

    python -m tests.drivers.caller.fork_server SOCKET

A child writes lines to the test that asked for it, and ends with that connection at the latest.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import signal
import socket
import sys
import tempfile
import traceback
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import NoReturn

from rowcall.testing.process import PythonProcess
from tests.drivers.caller.callers import kinds as _kinds  # noqa: F401 (imported once, for all children)

ROOT = Path(__file__).parents[3]
PATIENCE_SECONDS = 30.0


class Line:
    """Both ends of the connection between a test and its child."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._file = connection.makefile("r")

    def say(self, **words: object) -> None:
        self._connection.sendall(json.dumps(words).encode() + b"\n")

    def hear(self) -> dict[str, object]:
        """The next line; empty at the end of the other side."""
        heard = self._file.readline()
        return dict(json.loads(heard)) if heard else {}

    def wait_for_the_end(self) -> None:
        assert self.hear() == {}

    def close(self) -> None:
        self._file.close()
        self._connection.close()


class Child(Line):
    """A child as its test holds it."""

    pid = 0

    def ready(self) -> dict[str, object]:
        """What it says when it is where it is to be killed."""
        words = self.hear()
        assert "error" not in words, words["error"]
        assert words, "it died"
        return words

    def kill(self) -> None:
        """SIGKILL, and wait until the kernel has closed what it had."""
        os.kill(self.pid, signal.SIGKILL)
        self.wait_for_the_end()


class ForkServer:
    def __init__(self, process: PythonProcess, path: str) -> None:
        self._process = process
        self._path = path

    @contextlib.contextmanager
    def child(self, function: str, **wishes: object) -> Iterator[Child]:
        """Run `module:function(line, **wishes)` in a separate process."""
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(PATIENCE_SECONDS)
        connection.connect(self._path)
        child = Child(connection)
        try:
            child.say(function=function, wishes=wishes)
            child.pid = int(str(child.ready()["pid"]))
            yield child
        finally:
            child.close()


@contextlib.contextmanager
def fork_server() -> Iterator[ForkServer]:
    with tempfile.TemporaryDirectory(prefix="fork_server-") as folder:  # a socket's path must be short
        path = os.path.join(folder, "socket")
        with PythonProcess("-m", "tests.drivers.caller.fork_server", path, cwd=str(ROOT)) as process:
            process.wait_for("open")
            yield ForkServer(process, path)


def main(path: str) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # their exit codes are not needed
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        gc.freeze()
        print("open", flush=True)
        while True:
            connection, _ = listener.accept()
            if os.fork() == 0:
                listener.close()
                be_born(Line(connection))
            connection.close()


def be_born(line: Line) -> NoReturn:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    try:
        asked = line.hear()
        line.say(pid=os.getpid())
        module, _, name = str(asked["function"]).partition(":")
        getattr(import_module(module), name)(line, **asked["wishes"])  # type: ignore[arg-type]
        os._exit(0)
    except BaseException:
        with contextlib.suppress(OSError):
            line.say(error=traceback.format_exc())
        os._exit(1)


if __name__ == "__main__":
    main(sys.argv[1])

"""Processes that are quickly made: one has imported everything, and forks a child for each order.

`python -m tests.crash.storm.nursery SOCKET`. Starting Python for each would take most of the time of a storm. It
ends with the process that started it, even one that is killed, and so do its children.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

import aiosqlite  # noqa: F401 (imported once, for all children)
import psycopg_pool  # noqa: F401

from rowcall.testing.deadline import eventually
from rowcall.testing.process import PythonProcess, process_state
from rowcall.worker import process as _process  # noqa: F401
from tests.worker.support import ROOT

ENDED = "ended on its own"
PATIENCE_SECONDS = 90.0
LOOK_SECONDS = 1.0


class Child:
    """A process of the nursery, as the test holds it. Its output is in a file."""

    def __init__(self, pid: int, output: Path) -> None:
        self.pid = pid
        self._output = output
        self.was_killed = False
        self.is_ending = False

    @property
    def _state(self) -> str:
        """As the kernel has it; none once it is gone."""
        try:
            return process_state(self.pid)
        except (FileNotFoundError, ProcessLookupError):
            return "X"

    @property
    def alive(self) -> bool:
        return self._state not in "ZX"

    @property
    def output(self) -> str:
        return self._output.read_text(errors="replace")

    @property
    def ended_well(self) -> bool:
        return self.was_killed or self.output.endswith(f"{ENDED}\n")

    def send(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def stop(self) -> None:
        """SIGSTOP, and wait until the kernel has seen to it."""
        self.send(signal.SIGSTOP)
        eventually(lambda: self._state in "TZX", message="a stopped process")

    def stacks(self) -> str:
        """Where each of its threads is."""
        before = len(self.output)
        self.send(signal.SIGUSR1)
        eventually(lambda: "most recent call first" in self.output[before:] or not self.alive, message="its stacks")
        return self.output[before:]

    def kill(self) -> None:
        self.was_killed = True
        self.send(signal.SIGKILL)
        self.wait()

    def wait(self) -> None:
        eventually(lambda: not self.alive, within=PATIENCE_SECONDS, message=f"the end of process {self.pid}")


class Nursery:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path = str(folder / "nursery")
        self._process = PythonProcess("-m", "tests.crash.storm.nursery", self._path, cwd=str(ROOT))
        eventually(lambda: os.path.exists(self._path) or not self._process.alive, within=PATIENCE_SECONDS)
        assert self._process.alive, self._process.output

    def start(self, arguments: list[str], env: Mapping[str, str]) -> Child:
        """Run `tests.crash.storm.program` with these arguments."""
        output = self._folder / f"output-{env['STORM_SEED']}"
        output.touch()
        with socket.socket(socket.AF_UNIX) as asking:
            asking.connect(self._path)
            asking.sendall(json.dumps({"arguments": arguments, "env": dict(env), "output": str(output)}).encode())
            asking.shutdown(socket.SHUT_WR)
            return Child(int(asking.makefile().read()), output)

    def close(self) -> None:
        self._process.close()


def main() -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # so that none becomes a zombie
    os.setpgrp()
    parent = os.getppid()
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(sys.argv[1])
        door.listen()
        while True:
            if not select.select([door], [], [], LOOK_SECONDS)[0]:
                if os.getppid() != parent:
                    os.killpg(0, signal.SIGKILL)
                continue
            asking, _ = door.accept()
            order = json.loads(asking.makefile().read())
            pid = os.fork()
            if pid == 0:
                asking.close()
                door.close()
                _run_child(**order)
            asking.sendall(str(pid).encode())
            asking.close()


def _run_child(arguments: list[str], env: dict[str, str], output: str) -> NoReturn:
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        written = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
        os.dup2(written, 1)
        os.dup2(written, 2)
        os.environ.update(env)
        from tests.crash.storm import program  # opens what the environment names

        program.main(*arguments)
        print(ENDED, flush=True)
    except BaseException:  # it goes no further than its output
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    main()

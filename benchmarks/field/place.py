"""One queue on an empty database: its producer, its worker, and what is asked of its tables."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from benchmarks.bench import Bench
from benchmarks.contestants.field import APPS, Peer
from benchmarks.database import connect
from benchmarks.field.installing import installed
from benchmarks.process_tree import GONE, cpu_seconds, kill_tree, proportional_megabytes, tree_of
from benchmarks.workers import ROOT, ProcessFailed
from rowcall.testing.private_server import free_port

REDIS_SETTINGS = {"appendonly": "yes", "appendfsync": "always", "save": ""}
LONGEST_WAIT_SECONDS = 120.0
STOP_SECONDS = 10.0
LOOK_EVERY_SECONDS = 0.005
LAST_OF_OUTPUT = 400
GRAPHILE = ROOT / "benchmarks" / "contestants" / "apps" / "graphile"


class Line(NamedTuple):
    """What a handler wrote."""

    what: str
    number: int
    monotonic_ns: int


class Enqueued(NamedTuple):
    done: int
    seconds: float
    error: str


class Place:
    """A queue at work. The folder has the file that its handlers write, and the output of its worker."""

    def __init__(self, peer: Peer, url: str, folder: Path) -> None:
        self.peer = peer
        self.url = url
        self._witness = folder / "witness"
        self._output = folder / "output"
        self._programs = installed(peer)
        self._environment = {
            **os.environ,
            "FIELD_URL": url,
            "FIELD_WITNESS": str(self._witness),
            "PYTHONPATH": str(ROOT),
            "RQ_REDIS_URL": url,
            **peer.environment,
        }
        with self._output.open("ab") as output:
            self._driver = subprocess.Popen(
                self._driver_command(),
                cwd=ROOT,
                env=self._environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                text=True,
            )
        self._worker: subprocess.Popen[bytes] | None = None
        self._ask("prepare")

    def enqueue(self, what: str, count: int = 1, *, first: int = 0) -> Enqueued:
        """Enqueue jobs with these numbers, one call for each."""
        return self._ask("enqueue", what, first, count)

    def enqueue_many(self, what: str, count: int) -> Enqueued:
        """Enqueue jobs by the queue's call for many jobs, or one by one if it has none."""
        return self._ask("enqueue_many" if self.peer.bulk else "enqueue", what, 0, count)

    def start_worker(self) -> None:
        """Start the worker by its command."""
        command = [str(self._programs / self.peer.command[0]), *self.peer.command[1:]]
        if self.peer.npm:
            command += ["-c", self.url]
        with self._output.open("ab") as output:
            self._worker = subprocess.Popen(
                command,
                cwd=GRAPHILE if self.peer.npm else ROOT,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def kill_worker(self) -> None:
        """SIGKILL the worker and all its processes."""
        assert self._worker is not None
        kill_tree(self._worker.pid)
        self._worker.wait()

    def worker_cpu_seconds(self) -> float:
        return sum(self._of_each_process(cpu_seconds))

    def worker_megabytes(self) -> float:
        return sum(self._of_each_process(proportional_megabytes))

    def witnessed(self, what: str) -> list[Line]:
        """Return what the handlers of such jobs have written so far."""
        if not self._witness.exists():
            return []
        lines = (line.split() for line in self._witness.read_text(encoding="ascii").splitlines())
        return [Line(name, int(number), int(at)) for name, number, at in lines if name == what]

    def left(self) -> int:
        """Return how many jobs are not done yet."""
        return self._count(self.peer.left)

    def failed(self) -> int:
        """Return how many jobs the queue has given up."""
        return self._count(self.peer.failed) if self.peer.failed else 0

    def wait(self, reached: Callable[[], bool], seconds: float = LONGEST_WAIT_SECONDS) -> float:
        """Wait until it is so, with a worker that stays alive. Return the time of the look that saw it."""
        deadline = time.monotonic() + seconds
        while (now := time.monotonic()) < deadline:
            if reached():
                return now
            if self._worker is not None and self._worker.poll() is not None:
                raise ProcessFailed(f"the worker ended with {self._worker.returncode}: {self.output()}")
            time.sleep(LOOK_EVERY_SECONDS)
        raise TimeoutError(f"not reached within {seconds:.0f} s, {self.left():,} jobs left: {self.output()}")

    def output(self) -> str:
        """Return the end of what its programs printed."""
        return " ".join(self._output.read_text(errors="replace").split())[-LAST_OF_OUTPUT:]

    def close(self) -> None:
        """End all its processes: ask the worker first."""
        if self._worker is not None and self._worker.poll() is None:
            members = tree_of(self._worker.pid)
            self._worker.terminate()
            with suppress(subprocess.TimeoutExpired):
                self._worker.wait(STOP_SECONDS)
            for member in members:
                kill_tree(member)
            self._worker.wait()
        kill_tree(self._driver.pid)
        self._driver.communicate()

    def _of_each_process(self, measure: Callable[[int], float]) -> Iterator[float]:
        assert self._worker is not None
        for pid in tree_of(self._worker.pid):
            with suppress(*GONE):
                yield measure(pid)

    def _driver_command(self) -> list[str]:
        if self.peer.npm:
            return ["node", str(GRAPHILE / "driver.mjs"), str(self._programs.parent.parent)]
        return [str(self._programs / "python"), "-m", f"{APPS}.driver", self.peer.app]

    def _ask(self, *command: object) -> Enqueued:
        assert self._driver.stdin is not None
        assert self._driver.stdout is not None
        print(json.dumps(command), file=self._driver.stdin, flush=True)
        line = self._driver.stdout.readline()
        if not line:
            raise ProcessFailed(f"the producer ended with {self._driver.wait(STOP_SECONDS)}: {self.output()}")
        answer = json.loads(line)
        enqueued = Enqueued(answer["done"], answer["seconds"], answer.get("error", ""))
        if command[0] == "prepare" and enqueued.error:
            raise ProcessFailed(f"no tables: {enqueued.error}")
        return enqueued

    def _count(self, question: str) -> int:
        if self.peer.service == "Redis":
            return int(_redis(self.url, "EVAL", question, "0"))
        with closing(connect(self.url)) as database:
            number: int = database.rows(question)[0][0]
            return number


@contextmanager
def opened(peer: Peer, bench: Bench) -> Iterator[Place]:
    """A queue on an empty database of its service, gone afterwards."""
    with ExitStack() as stack:
        site = stack.enter_context(bench.on("postgres" if peer.service == "PostgreSQL" else "sqlite").fresh_site())
        url = stack.enter_context(_redis_server(site.folder)) if peer.service == "Redis" else site.url
        yield stack.enter_context(closing(Place(peer, url, site.folder)))


@contextmanager
def _redis_server(folder: Path) -> Iterator[str]:
    """A private Redis that has each write on disk before it answers, as the databases do."""
    port = str(free_port())
    settings = {**REDIS_SETTINGS, "port": port, "bind": "127.0.0.1", "dir": str(folder)}
    options = [part for name, value in settings.items() for part in (f"--{name}", value)]
    url = f"redis://127.0.0.1:{port}/0"
    server = subprocess.Popen(["redis-server", *options], stdout=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + STOP_SECONDS
        while not _answers(int(port)):
            if server.poll() is not None or time.monotonic() > deadline:
                raise ProcessFailed("redis-server does not start")
            time.sleep(LOOK_EVERY_SECONDS)
        yield url
    finally:
        server.kill()
        server.wait()


def _answers(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


def _redis(url: str, *command: str) -> str:
    ran = subprocess.run(["redis-cli", "-u", url, *command], capture_output=True, text=True, check=True)
    return ran.stdout.strip()

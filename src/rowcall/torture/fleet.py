"""The processes of a torture run: workers as `rowcall work` runs them, producers, and one that holds locks.

All are in the process group of a guardian, a shell that reads from this process: if this process dies in any way, the
guardian kills the group, also the processes that are stopped.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

from rowcall.base.clock import SYSTEM_CLOCK
from rowcall.base.text import one_line
from rowcall.domain.errors import StoreUnavailable
from rowcall.torture.arena import Arena
from rowcall.torture.workload import environment

LEASE_SECONDS = 3.0
CONCURRENCY = 100
END_SECONDS = 20.0
GUARD = "read -r _; kill -KILL 0"
UNEXPECTED = re.compile(r"with an unexpected error|^Traceback ", re.MULTILINE)
"""In a log. The errors of handlers are indented."""
SHOWN_BEFORE, SHOWN = 200, 2000
"""Characters of a log."""


class TortureProcess:
    """A process with a name, which its files also have."""

    def __init__(self, name: str, process: subprocess.Popen[bytes]) -> None:
        self.name = name
        self.process = process
        self.is_stopped = self.is_ending = self.was_killed = False

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def send(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(number)

    def kill(self) -> None:
        self.was_killed = True
        self.send(signal.SIGKILL)
        self.process.wait()


class Fleet:
    """Starts the processes on one database, and replaces the ones that end. `urls` are given out in turn."""

    def __init__(self, arena: Arena, folder: Path, urls: list[str], workers: int, producers: int) -> None:
        self._arena, self._folder, self._urls = arena, folder, urls
        self._sizes = {"worker": workers, "producer": producers}
        self._started = 0
        self._stops = (folder / "stops").open("a", buffering=1)
        self.running: dict[str, list[TortureProcess]] = {role: [] for role in self._sizes}
        self.per_second = 0.0
        self.crashed: list[str] = []
        self._guardian = subprocess.Popen(["/bin/sh", "-c", GUARD], stdin=subprocess.PIPE, process_group=0)
        self._locker: TortureProcess | None = None

    def fill_up(self) -> None:
        """Replace the processes that have ended."""
        for role, size in self._sizes.items():
            children = self.running[role]
            for child in children:
                if (code := child.process.poll()) is not None and code < 0 and not child.was_killed:
                    self.crashed.append(f"{child.name} was ended by {signal.Signals(-code).name}")
            children[:] = [child for child in children if child.alive]
            while len(children) < size:
                children.append(self._start_worker() if role == "worker" else self._start_producer())

    def pick(self, role: str, choice: int) -> TortureProcess | None:
        """Return one that has begun its work, is not stopped, and is not about to end."""
        ready = [
            child
            for child in self.running[role]
            if child.alive and self._has_begun(child) and not (child.is_stopped or child.is_ending)
        ]
        return ready[choice % len(ready)] if ready else None

    def _has_begun(self, child: TortureProcess) -> bool:
        """Return whether its witness file has a line."""
        return any(path.stat().st_size for path in self._folder.glob(f"{child.name}.a*"))

    def require_begun(self) -> bool:
        """Return whether all processes have begun their work, or raise how one has ended."""
        for child in (*self.running["worker"], *self.running["producer"]):
            if not child.alive:
                log = (self._folder / f"{child.name}.log").read_text(errors="replace")[-SHOWN:]
                raise StoreUnavailable(f"{child.name} has ended at once: {one_line(log)}", "This is its log")
            if not self._has_begun(child):
                return False
        return True

    def stop(self, child: TortureProcess) -> None:
        """Send SIGSTOP, if possible while it does not hold a lock that all others need."""
        for _ in range(20):
            child.send(signal.SIGSTOP)
            os.waitid(os.P_PID, child.process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
            if self._arena.is_free():
                break
            child.send(signal.SIGCONT)
        child.send(signal.SIGSTOP)
        self._stops.write(f"{child.name} {SYSTEM_CLOCK.monotonic():.6f}\n")
        child.is_stopped = True

    def resume(self, child: TortureProcess) -> None:
        child.is_stopped = False
        child.send(signal.SIGCONT)

    def end_worker(self, child: TortureProcess) -> None:
        child.is_ending = True
        child.send(signal.SIGTERM)

    def lock(self, name: str, seconds: float) -> None:
        if self._locker is None or not self._locker.alive:
            self._locker = self._start("locker", "rowcall.torture.locker", stdin=subprocess.PIPE)
        assert self._locker.process.stdin is not None
        self._locker.process.stdin.write(f"{name} {seconds:.3f}\n".encode())
        self._locker.process.stdin.flush()

    def end_producers(self) -> None:
        self._sizes["producer"] = 0
        for child in self.running["producer"]:
            child.kill()

    def end_workers(self) -> list[str]:
        """Ask all workers to end. Return what is wrong with how they did."""
        self._sizes["worker"] = 0
        for child in self.running["worker"]:
            self.end_worker(child)
        problems = []
        for child in self.running["worker"]:
            try:
                child.process.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                child.kill()
                problems.append(f"{child.name} did not end within {END_SECONDS:g} s of SIGTERM")
        return problems

    def unexpected(self) -> list[str]:
        """Return the parts of the logs that should not be there."""
        problems = []
        for path in sorted(self._folder.glob("*.log")):
            log = path.read_text(errors="replace")
            if unexpected := UNEXPECTED.search(log):
                problems.append(f"{path.stem}: {log[max(0, unexpected.start() - SHOWN_BEFORE) :][:SHOWN]}")
        return problems

    def close(self) -> None:
        locker = [] if self._locker is None else [self._locker]
        for child in (*self.running["worker"], *self.running["producer"], *locker):
            child.kill()
        for process in (self._guardian, *(child.process for child in locker)):
            assert process.stdin is not None
            with contextlib.suppress(BrokenPipeError):
                process.stdin.close()
        self._guardian.wait()
        self._stops.close()

    def _start_worker(self) -> TortureProcess:
        options = (f"--lease={LEASE_SECONDS:g}", f"--concurrency={CONCURRENCY}", "--log-level=warning", "--grace=5")
        return self._start("worker", "rowcall", "work", "rowcall.torture.worker_app:jobs", *options)

    def _start_producer(self) -> TortureProcess:
        return self._start("producer", "rowcall.torture.producer", str(self.per_second / self._sizes["producer"]))

    def _start(self, role: str, module: str, *arguments: str, stdin: int = subprocess.DEVNULL) -> TortureProcess:
        self._started += 1
        name = f"{role}-{self._started}"
        url = self._arena.url if role == "locker" else self._urls[self._started % len(self._urls)]
        with (self._folder / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", module, *arguments],
                env=environment(url, self._arena.prefix, self._folder, name),
                cwd=self._folder,
                stdin=stdin,
                stdout=log,
                stderr=log,
                process_group=self._guardian.pid,
            )
        return TortureProcess(name, process)

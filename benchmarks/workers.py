"""Real processes next to this one: started, looked at, stopped."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.bench import Site
from benchmarks.process_tree import cpu_seconds

ROOT = Path(__file__).resolve().parent.parent
STOP_SECONDS = 40.0
RUN_SECONDS = 300.0


class ProcessFailed(Exception):
    """A process of the benchmark ended, or would not end."""


@contextmanager
def environment(**variables: str) -> Iterator[None]:
    """Set variables for the processes that start within the block."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


class WorkerProcess:
    def __init__(self, process: subprocess.Popen[bytes], errors: Path) -> None:
        self._process = process
        self._errors = errors

    @property
    def pid(self) -> int:
        return self._process.pid

    def wait_until_ready(self) -> None:
        """Wait until it is about to open the queue."""
        assert self._process.stdout is not None
        if not self._process.stdout.readline():
            self._process.wait(STOP_SECONDS)
            self.check()

    def begin(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()

    def check(self) -> None:
        """Raise if it has ended on its own."""
        code = self._process.poll()
        if code is not None:
            raise ProcessFailed(f"the worker ended with {code}: {self._errors.read_text().strip()[-2000:]}")

    def cpu_seconds(self) -> float:
        """The processor time it has used so far."""
        return cpu_seconds(self._process.pid)

    def resident_megabytes(self) -> float:
        """The memory it holds now, in units of 1,000,000 bytes."""
        lines = Path(f"/proc/{self._process.pid}/status").read_text().splitlines()
        kibibytes = next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))
        return kibibytes * 1024 / 1e6

    def stop(self) -> None:
        if self._process.poll() is None:
            self._process.terminate()
        _end(self._process, "the worker")


@contextmanager
def worker_processes(
    site: Site,
    count: int = 1,
    *,
    options: Sequence[str] = (),
    stamps: Path | None = None,
    flows: bool = False,
) -> Iterator[list[WorkerProcess]]:
    """Start many workers together, each as `rowcall work` with these options. Their logs go to a file."""
    errors = site.folder / "worker-errors.txt"
    environment = {
        "ROWCALL_BENCH_URL": site.url,
        "ROWCALL_BENCH_FLOWS": "1" if flows else "",
        "ROWCALL_BENCH_STAMPS": "",
    }
    if stamps is not None:
        environment["ROWCALL_BENCH_STAMPS"] = str(stamps)
    workers: list[WorkerProcess] = []
    try:
        for _ in range(count):
            with errors.open("ab") as sink:
                process = subprocess.Popen(
                    [sys.executable, "-m", "rowcall", "work", "benchmarks.work_app:jobs", *options],
                    cwd=ROOT,
                    env={**os.environ, **environment},
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=sink,
                )
            workers.append(WorkerProcess(process, errors))
        for worker in workers:
            worker.wait_until_ready()
        for worker in workers:
            worker.begin()
        yield workers
    finally:
        for worker in workers:
            worker.stop()


class Background:
    """One of `benchmarks/processes` that is at its work."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def is_running(self) -> bool:
        return self._process.poll() is None


@contextmanager
def background(name: str, *arguments: object) -> Iterator[Background]:
    """One of `benchmarks/processes` next to what is measured, from when it says that it is ready; then killed."""
    process = subprocess.Popen(
        command(name, [str(argument) for argument in arguments]), cwd=ROOT, stdout=subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        if not process.stdout.readline():
            raise ProcessFailed(f"{name} ended with {process.wait(STOP_SECONDS)}")
        yield Background(process)
    finally:
        process.kill()
        process.wait()


def command(name: str, arguments: Sequence[str]) -> list[str]:
    """How one of `benchmarks/processes` is started."""
    return [sys.executable, "-m", f"benchmarks.processes.{name}", *arguments]


def report_of(name: str, *arguments: object) -> dict[str, float]:
    """Run one of `benchmarks/processes` to its end. Return the figures that it prints."""
    ran = subprocess.run(
        command(name, [str(argument) for argument in arguments]),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
        check=False,
    )
    if ran.returncode:
        raise ProcessFailed(f"{name} ended with {ran.returncode}: {ran.stderr.strip()[-2000:]}")
    return _figures(ran.stdout)


Ask = Callable[[str], dict[str, float]]


@contextmanager
def conversation(name: str, *arguments: object) -> Iterator[Ask]:
    """Run one of `benchmarks/processes` that reads commands, a line each, and prints the figures of each."""
    process = subprocess.Popen(
        command(name, [str(argument) for argument in arguments]),
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )

    def ask(line: str) -> dict[str, float]:
        assert process.stdin is not None
        assert process.stdout is not None
        print(line, file=process.stdin, flush=True)
        answer = process.stdout.readline()
        if not answer:
            raise ProcessFailed(f"{name} ended with {process.wait(STOP_SECONDS)}")
        return _figures(answer)

    try:
        yield ask
    finally:
        assert process.stdin is not None
        process.stdin.close()
        _end(process, name)


def _end(process: subprocess.Popen[Any], name: str) -> None:
    """Wait until it has ended, which it was asked to."""
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        raise ProcessFailed(f"{name} did not stop within {STOP_SECONDS:.0f} s") from None


def _figures(printed: str) -> dict[str, float]:
    figures: Any = json.loads(printed)
    return {key: float(value) for key, value in figures.items()}

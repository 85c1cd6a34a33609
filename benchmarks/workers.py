"""Real processes beside this one: started, looked at, stopped."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
STOP_SECONDS = 40.0
RUN_SECONDS = 180.0
TICKS = os.sysconf("SC_CLK_TCK")


class ProcessFailed(Exception):
    """A process of the benchmark ended, or would not end."""


class WorkerProcess:
    def __init__(self, process: subprocess.Popen[bytes], errors: Path) -> None:
        self._process = process
        self._errors = errors

    def check(self) -> None:
        """Raise if it has ended by itself."""
        code = self._process.poll()
        if code is not None:
            raise ProcessFailed(f"the worker ended with {code}: {self._errors.read_text().strip()[-2000:]}")

    def cpu_seconds(self) -> float:
        """The processor time it has used so far."""
        threads = Path(f"/proc/{self._process.pid}/task").glob("*/schedstat")
        nanoseconds = sum(int(path.read_text().split()[0]) for path in threads)
        if nanoseconds:
            return nanoseconds / 1e9
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def resident_megabytes(self) -> float:
        """The memory it holds now, in units of 1,000,000 bytes."""
        lines = Path(f"/proc/{self._process.pid}/status").read_text().splitlines()
        kibibytes = next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))
        return kibibytes * 1024 / 1e6

    def stop(self) -> None:
        if self._process.poll() is None:
            self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise ProcessFailed(f"the worker did not stop within {STOP_SECONDS:.0f} s") from None


@contextmanager
def worker_process(path: Path, *, stamps: Path | None = None) -> Iterator[WorkerProcess]:
    """One worker on this file, in a process of its own."""
    errors = path.parent / "worker-errors.txt"
    arguments = [str(path)] if stamps is None else [str(path), "--stamps", str(stamps)]
    with errors.open("ab") as sink:
        process = subprocess.Popen(
            command("worker", arguments), cwd=ROOT, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink
        )
    worker = WorkerProcess(process, errors)
    try:
        yield worker
    finally:
        worker.stop()


def command(name: str, arguments: Sequence[str]) -> list[str]:
    """How one of `benchmarks/processes` is started."""
    return [sys.executable, "-m", f"benchmarks.processes.{name}", *arguments]


def report_of(name: str, *arguments: object) -> dict[str, float]:
    """Run one of `benchmarks/processes` to its end; gives the figures it prints."""
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
    figures: Any = json.loads(ran.stdout)
    return {key: float(value) for key, value in figures.items()}

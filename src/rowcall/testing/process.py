"""Real processes for tests: started as Python programs, ended by their id, never left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from types import TracebackType

from rowcall.testing.waiting import eventually

PATIENCE_SECONDS = 30.0
MOST_OUTPUT_BYTES = 16 * 1024 * 1024

STOPPING = (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)


def default_signals() -> Callable[[], None] | None:
    """Return a `preexec_fn` for children that signals must end, or None if this process ignores none of them.

    A process that a shell starts in the background, or some CI runners, ignores SIGINT, and so do its children.
    """
    ignored = [number for number in STOPPING if signal.getsignal(number) is signal.SIG_IGN]

    def restore() -> None:
        for number in ignored:
            signal.signal(number, signal.SIG_DFL)

    return restore if ignored else None


class PythonProcess:
    """A Python program in a separate process; its output is kept in a file, so that it never blocks on a pipe.

    with PythonProcess("-m", "some.program", "argument") as process:
        process.send(signal.SIGTERM)
        assert process.wait() == 0
    """

    def __init__(self, *arguments: str, env: Mapping[str, str] | None = None, cwd: str | None = None) -> None:
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the process)
        self._process = subprocess.Popen(
            [sys.executable, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=subprocess.STDOUT,
            env=None if env is None else dict(env),
            cwd=cwd,
            preexec_fn=default_signals(),
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    @property
    def returncode(self) -> int | None:
        return self._process.poll()

    @property
    def output(self) -> str:
        """What it has printed so far."""
        # the child writes through the same file position: read without moving it
        data = os.pread(self._output.fileno(), MOST_OUTPUT_BYTES, 0)
        return data.decode(errors="replace")

    def wait_for(self, text: str, *, within: float = PATIENCE_SECONDS) -> None:
        """Wait until it has printed a text."""
        eventually(lambda: text in self.output or not self.alive, within=within, message=f"{text!r} in the output")
        assert text in self.output, f"it ended with {self.returncode} before it printed {text!r}:\n{self.output}"

    def send(self, number: signal.Signals) -> None:
        if self.alive:
            self._process.send_signal(number)

    def kill(self) -> None:
        """SIGKILL, and wait until the kernel has cleared it away."""
        self.send(signal.SIGKILL)
        self._process.wait(PATIENCE_SECONDS)

    def wait(self, *, within: float = PATIENCE_SECONDS) -> int:
        """Wait for its end. Return its exit code."""
        return self._process.wait(within)

    def close(self) -> None:
        self.send(signal.SIGCONT)
        self.kill()
        self._output.close()

    def __enter__(self) -> PythonProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

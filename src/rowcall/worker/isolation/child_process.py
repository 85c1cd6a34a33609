"""One child process, as its worker sees it: started, spoken to, ended and buried."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import NamedTuple

from rowcall.base.clock import Clock
from rowcall.worker.isolation.messages import Hello, ToChild, ToWorker, line_of, to_worker

GRACE_SECONDS = 5.0
DIED_CODE = "PROCESS:DIED"
OUT_OF_MEMORY_CODE = "RESOURCE:OUT_OF_MEMORY"
_NEAR_THE_LIMIT = 0.8


class Ending(NamedTuple):
    code: int | None
    """What `waitpid` says: an exit code, or the negative number of a signal; None where somebody else has asked."""
    most_memory: int
    killed_by_kernel: bool

    def outcome(self, memory_limit: int | None) -> tuple[str, str]:
        """An error code and a detail for what ran in it."""
        near = memory_limit is not None and self.most_memory > memory_limit * _NEAR_THE_LIMIT
        if self.code is not None and self.code < 0 and (self.killed_by_kernel or near):
            return OUT_OF_MEMORY_CODE, f"the process was ended by {self._how}, at {self.most_memory >> 20} MB"
        return DIED_CODE, f"the process was ended by {self._how}, and not by its handler's return"

    @property
    def _how(self) -> str:
        if self.code is None:
            return "an unknown cause"
        if self.code >= 0:
            return f"exit code {self.code}"
        with contextlib.suppress(ValueError):
            return signal.Signals(-self.code).name
        return f"signal {-self.code}"


class ChildProcess:
    """Made in a thread that outlives it: Linux ends a child whose parent asked for it when that thread ends."""

    def __init__(self, hello: Hello, clock: Clock) -> None:
        self._clock = clock
        self._killed_before = _killed_by_kernel()
        self._socket, theirs = socket.socketpair()
        with theirs:
            try:
                # a process group of its own: Ctrl-C in a terminal reaches the worker alone
                self._process = subprocess.Popen(
                    [sys.executable, "-m", "rowcall.worker.isolation.child", str(theirs.fileno()), str(os.getpid())],
                    stdin=subprocess.DEVNULL,
                    pass_fds=[theirs.fileno()],
                    process_group=0,
                )
            except BaseException:
                self._socket.close()
                raise
        self._lines = self._socket.makefile("rb")
        self._lock = threading.Lock()
        self._buried = threading.Event()
        self._ending = Ending(None, 0, False)
        self._grace: threading.Timer | None = None
        self.is_doomed = False
        threading.Thread(target=self._bury, name="rowcall-child", daemon=True).start()
        self.send(hello)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_usable(self) -> bool:
        return not (self.is_doomed or self._buried.is_set())

    def send(self, message: ToChild) -> None:
        with contextlib.suppress(OSError):  # it has ended, as whoever reads its words will learn
            self._socket.sendall(line_of(message))

    def words(self) -> Iterator[ToWorker]:
        """What it says, until its end or `let_go`."""
        while True:
            try:
                line = self._lines.readline()
            except OSError:
                return
            if not line.endswith(b"\n"):
                return
            yield to_worker.decode(line)

    def let_go(self) -> None:
        """Listen no longer, though it may live on for a moment."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RD)

    def terminate(self) -> None:
        """SIGTERM now, SIGKILL if it is still there after the grace period."""
        with self._lock:
            if self.is_doomed:
                return
            self.is_doomed = True
            self._grace = threading.Timer(GRACE_SECONDS, self.kill)
            self._grace.daemon = True
            self._grace.start()
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        self.is_doomed = True
        self._signal(signal.SIGKILL)

    def ending(self) -> Ending:
        self._buried.wait()
        return self._ending

    def _signal(self, number: signal.Signals) -> None:
        with self._lock:
            if not self._buried.is_set():
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(self.pid, number)

    def _bury(self) -> None:
        code, most_memory = None, 0
        with contextlib.suppress(ChildProcessError):  # an app that ignores SIGCHLD leaves nothing to ask for
            if hasattr(os, "waitid"):
                # what it has started itself goes with it, while its number cannot be another's yet
                os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
                self._signal(signal.SIGKILL)
            _, status, usage = os.wait4(self.pid, 0)
            code = os.waitstatus_to_exitcode(status)
            most_memory = usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
        with self._lock:
            self._process.returncode = -1 if code is None else code  # Popen need not ask again
            self._ending = Ending(code, most_memory, _killed_by_kernel() > self._killed_before)
            self.let_go()  # what it has left behind may hold its socket; what it said before is still read
            self._buried.set()
            if self._grace is not None:
                self._grace.cancel()

    def close(self, patience_seconds: float | None = None) -> None:
        """Wait for its end, which somebody has asked for."""
        if not self._clock.wait(self._buried, patience_seconds):
            return  # the kernel holds it back; it is reaped when that is over
        self._lines.close()
        self._socket.close()


def _killed_by_kernel() -> int:
    """How many processes the machine has killed for want of memory; always 0 where it does not tell."""
    with contextlib.suppress(OSError, ValueError), open("/proc/vmstat") as file:
        for line in file:
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    return 0

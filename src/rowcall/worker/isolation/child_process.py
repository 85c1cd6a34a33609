"""One child process, as its worker sees it."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import NamedTuple

from rowcall.base.clock import Clock
from rowcall.domain.job import StackFrame
from rowcall.worker.isolation.messages import End, Hello, ReadStack, StackRead, ToChild, ToWorker, line_of, to_worker
from rowcall.worker.pace import CHILD_GRACE_SECONDS, NEAR_THE_LIMIT

DIED_CODE = "PROCESS:DIED"
OUT_OF_MEMORY_CODE = "RESOURCE:OUT_OF_MEMORY"


class Ending(NamedTuple):
    code: int | None
    """An exit code, or the negative number of a signal; None if another part of the app has reaped the process."""
    most_memory: int
    killed_by_kernel: bool

    def error(self, memory_limit: int | None) -> tuple[str, str]:
        """Return an error code and a detail for the attempt that ran in it."""
        near = memory_limit is not None and self.most_memory > memory_limit * NEAR_THE_LIMIT
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
    """Create it in a thread that outlives it: Linux kills such a child when the thread that started it ends."""

    def __init__(self, hello: Hello, clock: Clock) -> None:
        self._clock = clock
        self._killed_before = _killed_by_kernel()
        self._socket, theirs = socket.socketpair()
        with theirs:
            try:
                # in its own process group, so that Ctrl-C in a terminal reaches only the worker
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
        self._reaped = threading.Event()
        self._ending = Ending(None, 0, False)
        self._grace: threading.Timer | None = None
        self.is_ending = False
        self._stack_readers: deque[Callable[[list[StackFrame]], None]] = deque()
        threading.Thread(target=self._reap, name="rowcall-child", daemon=True).start()
        self.send(hello)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_usable(self) -> bool:
        return not (self.is_ending or self._reaped.is_set())

    def send(self, message: ToChild) -> None:
        with contextlib.suppress(OSError):  # it has ended; the reader of its messages will see that
            self._socket.sendall(line_of(message))

    def messages(self) -> Iterator[ToWorker]:
        """Yield its messages, until its end or `stop_listening`."""
        while True:
            try:
                line = self._lines.readline()
            except OSError:
                return
            if not line.endswith(b"\n"):
                return
            message = to_worker.decode(line)
            if isinstance(message, StackRead):
                self._stack_readers.popleft()(message.frames)
            else:
                yield message

    def read_stack(self, answer: Callable[[list[StackFrame]], None]) -> None:
        """Ask for the frames of its handler; `messages` calls `answer` when they come."""
        with self._lock:  # answers come in the order of the questions
            self._stack_readers.append(answer)
            self.send(ReadStack())

    def stop_listening(self) -> None:
        """End `messages`, although the process may live on for a moment."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RD)

    def terminate(self) -> None:
        """Send SIGTERM now, and SIGKILL if it is still there after the grace period."""
        if self._start_grace():
            self._signal(signal.SIGTERM)

    def end(self) -> None:
        """Let it leave its lifespan; send SIGKILL if it is still there after the grace period."""
        if self._start_grace():
            self.send(End())

    def _start_grace(self) -> bool:
        with self._lock:
            if self.is_ending:
                return False
            self.is_ending = True
            self._grace = threading.Timer(CHILD_GRACE_SECONDS, self.kill)
            self._grace.daemon = True
            self._grace.start()
        return True

    def kill(self) -> None:
        self.is_ending = True
        self._signal(signal.SIGKILL)

    def ending(self) -> Ending:
        self._reaped.wait()
        return self._ending

    def _signal(self, number: signal.Signals) -> None:
        with self._lock:
            if not self._reaped.is_set():
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(self.pid, number)

    def _reap(self) -> None:
        code, most_memory = None, 0
        with contextlib.suppress(ChildProcessError):  # if the app ignores SIGCHLD, the kernel has reaped it
            if hasattr(os, "waitid"):
                # kill what it has started, while its process id cannot belong to another process
                os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
                self._signal(signal.SIGKILL)
            _, status, usage = os.wait4(self.pid, 0)
            code = os.waitstatus_to_exitcode(status)
            most_memory = usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
        with self._lock:
            self._process.returncode = -1 if code is None else code  # so that Popen does not wait for it
            self._ending = Ending(code, most_memory, _killed_by_kernel() > self._killed_before)
            self.stop_listening()  # a process that it started may hold its socket; earlier messages are still read
            self._reaped.set()
            if self._grace is not None:
                self._grace.cancel()

    def close(self, seconds: float | None = None) -> None:
        """Wait for the end of a process that was asked to end."""
        if not self._clock.wait(self._reaped, seconds):
            return  # the kernel delays its end; it is reaped later
        self._lines.close()
        self._socket.close()


def _killed_by_kernel() -> int:
    """Return how many processes this machine has killed because memory ran out; 0 if unknown."""
    with contextlib.suppress(OSError, ValueError), open("/proc/vmstat") as file:
        for line in file:
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    return 0

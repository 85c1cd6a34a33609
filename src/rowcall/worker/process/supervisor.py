"""Runs several worker processes as one: starts them again when they die, and stops all of them together.

Each child holds the reading end of a pipe. A byte in it says how to stop, and its end says that the supervisor is gone.
Signals are not enough: a service manager or a terminal may also send them to the children, and a second one means "at
once".
"""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
import threading
from collections.abc import Callable, Sequence

from rowcall.base.clock import Clock
from rowcall.base.text import duration
from rowcall.context import logger
from rowcall.worker.pace import (
    BEYOND_GRACE_SECONDS,
    CHILDREN_AT_ONCE_SECONDS,
    FIRST_RESTART_SECONDS,
    LAST_RESTART_SECONDS,
    LIVED_A_WHILE_SECONDS,
    MOST_DOUBLINGS,
    SUPERVISOR_WAIT_SECONDS,
)
from rowcall.worker.process.os_signals import Signals
from rowcall.worker.worker import Worker

LEASH_OPTION = "--leash"
WRONG_USE = 2
"""The exit code of a process that could not import its app, or refused its options."""
_GRACEFULLY, _AT_ONCE = b"g", b"a"


def pause_seconds(quick_deaths: int) -> float:
    """Return how long to wait before a child is started again, after a number of early deaths in a row.

    >>> [pause_seconds(deaths) for deaths in range(8)]
    [0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]
    """
    if quick_deaths == 0:
        return 0.0
    return min(FIRST_RESTART_SECONDS * 2.0 ** min(quick_deaths - 1, MOST_DOUBLINGS), LAST_RESTART_SECONDS)


def quick_deaths(before: int, lived_seconds: float) -> int:
    """Return how many deaths in a row came soon after the start, counting one more.

    >>> quick_deaths(3, 0.5), quick_deaths(3, 3600)
    (4, 0)
    """
    return 0 if lived_seconds >= LIVED_A_WHILE_SECONDS else before + 1


class WorkerProcess:
    """One of the worker processes; a new process replaces one that dies."""

    def __init__(self, number: int, command: Sequence[str], clock: Clock) -> None:
        self.number = number
        self._timer = clock.timer
        self._command = command
        self._leash = -1
        self._started_at = 0.0
        self._quick_deaths = 0
        self.process: subprocess.Popen[bytes] | None = None
        self.start_at: float | None = self._timer()

    def start(self, ended: queue.SimpleQueue[WorkerProcess | None]) -> None:
        reading, self._leash = os.pipe()
        self._started_at = self._timer()
        self.start_at = None
        try:
            # in its own process group, so that Ctrl-C in a terminal reaches only the supervisor
            self.process = subprocess.Popen(
                [*self._command, LEASH_OPTION, str(reading)],
                stdin=subprocess.DEVNULL,
                pass_fds=[reading],
                process_group=0,
            )
        except OSError as error:
            logger.error("could not start worker process %d: %s; %s", self.number, error, self._plan_restart())
            return
        finally:
            os.close(reading)
        logger.info("started worker process %d with pid %d", self.number, self.process.pid)
        threading.Thread(target=_wait_for, args=(self, self.process, ended), daemon=True).start()

    def note_end(self, *, reloads: bool = False) -> str:
        """Note that the process has ended, and when the next one is due. Return a text that says both.

        If it `reloads`, the next one after a process that could not import the app waits for a change of the code.
        """
        assert self.process is not None
        code = self.process.returncode
        ending = _ending(self.process.pid, code)
        self.process = None
        if reloads and code == WRONG_USE:
            self._close_leash()
            return f"{ending}; the next one starts when a file changes"
        return f"{ending}; {self._plan_restart()}"

    def start_soon(self) -> None:
        """Start the next process now, whatever the last ones ended with."""
        self._quick_deaths = 0
        self.start_at = self._timer()

    def _close_leash(self) -> None:
        os.close(self._leash)
        self._leash = -1

    def _plan_restart(self) -> str:
        self._close_leash()
        self._quick_deaths = quick_deaths(self._quick_deaths, self._timer() - self._started_at)
        pause = pause_seconds(self._quick_deaths)
        self.start_at = self._timer() + pause
        return f"the next one starts in {duration(pause)}" if pause else "the next one starts now"

    def send(self, command: bytes) -> None:
        with contextlib.suppress(OSError):  # it has just ended
            os.write(self._leash, command)

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()


class Supervisor:
    """Keeps `processes` children running `command` until SIGINT or SIGTERM. `more` returns arguments for one child.

    If it `reloads`, each call of `reload` replaces all of them, after their running jobs have finished.
    """

    def __init__(
        self,
        command: Sequence[str],
        processes: int,
        grace_seconds: float,
        clock: Clock,
        more: Callable[[int], Sequence[str]] = lambda number: (),
        *,
        reloads: bool = False,
    ) -> None:
        self._children = [WorkerProcess(number, [*command, *more(number)], clock) for number in range(1, processes + 1)]
        self._grace_seconds = grace_seconds
        self._clock = clock
        self._timer = clock.timer
        self._ended: queue.SimpleQueue[WorkerProcess | None] = queue.SimpleQueue()  # None: a signal came
        self._signals = 0
        self._handled = 0
        self._killed = False
        self._deadline: float | None = None
        self._reloads = reloads
        self._changed = ""
        self._replacing = False

    def run(self) -> bool:
        """Run until all have ended. Return whether none had to be killed."""
        with Signals(self._clock, self._receive):
            try:
                while not (self._stopping and not self._alive):
                    self._start_due()
                    self._wait()
            finally:
                for child in self._alive:
                    child.kill()
        return not self._killed

    def obey(self, leash: int) -> None:
        """Stop as if by a signal when the other end of the leash is closed."""

        def wait() -> None:
            os.read(leash, 1)
            self._receive(1)

        threading.Thread(target=wait, name="rowcall-leash", daemon=True).start()

    def reload(self, changed: str) -> None:
        """Replace all children, because of a change. Can be called in any thread."""
        self._changed = changed
        self._ended.put(None)

    def _receive(self, count: int) -> None:
        self._signals += 1
        self._ended.put(None)  # safe in a signal handler: a SimpleQueue is reentrant

    @property
    def _stopping(self) -> bool:
        return self._handled > 0

    @property
    def _alive(self) -> list[WorkerProcess]:
        return [child for child in self._children if child.process is not None]

    @property
    def _replaces_running(self) -> bool:
        """Whether it starts no child now, as all are replaced and some still run."""
        return self._replacing and bool(self._alive)

    def _start_due(self) -> None:
        if self._stopping or self._replaces_running:
            return
        if self._replacing:
            self._replacing, self._deadline = False, None
            for child in self._children:
                child.start_soon()
        for child in self._children:
            if child.start_at is not None and child.start_at <= self._timer():
                child.start(self._ended)

    def _wait(self) -> None:
        child = None
        with contextlib.suppress(queue.Empty):
            child = self._ended.get(timeout=self._next_in_seconds())
        if self._deadline is not None and self._timer() >= self._deadline:
            self._kill_all()
        if child is not None:
            ending = child.note_end(reloads=self._reloads)
            if not (self._stopping or self._replacing):
                logger.warning("worker process %d: %s", child.number, ending)
        while self._handled < self._signals:
            self._handle_signal()
        if self._changed and not self._stopping:
            self._replace_all()

    def _next_in_seconds(self) -> float:
        # Python handles a signal that comes just before the wait only after it: so no wait is long
        times = [self._timer() + SUPERVISOR_WAIT_SECONDS]
        if self._deadline is not None:
            times.append(self._deadline)
        if not (self._stopping or self._replaces_running):
            times += [child.start_at for child in self._children if child.start_at is not None]
        return max(0.0, min(times) - self._timer())

    def _handle_signal(self) -> None:
        self._handled += 1
        if self._handled == 1:
            logger.info("stopping %s; a second signal stops at once", _counted(len(self._alive)))
            if not self._replacing:  # they are stopping already
                self._send_all(_GRACEFULLY, self._grace_seconds + BEYOND_GRACE_SECONDS)
        elif self._handled == 2:
            logger.warning("stopping at once: running jobs are released")
            self._send_all(_AT_ONCE, CHILDREN_AT_ONCE_SECONDS)
        else:
            self._kill_all()

    def _replace_all(self) -> None:
        logger.warning("restarting %s: %s", _counted(len(self._children)), self._changed)
        self._changed = ""
        if not self._replacing:
            self._replacing = True
            self._send_all(_GRACEFULLY, self._grace_seconds + BEYOND_GRACE_SECONDS)

    def _send_all(self, command: bytes, patience_seconds: float) -> None:
        for child in self._alive:
            child.send(command)
        self._deadline = self._timer() + patience_seconds

    def _kill_all(self) -> None:
        logger.error("killing %s that did not stop in time; jobs are recovered", _counted(len(self._alive)))
        self._killed = self._stopping
        self._deadline = None
        for child in self._alive:
            child.kill()


def _wait_for(
    child: WorkerProcess, process: subprocess.Popen[bytes], ended: queue.SimpleQueue[WorkerProcess | None]
) -> None:
    process.wait()
    ended.put(child)


def _counted(processes: int) -> str:
    return "1 worker process" if processes == 1 else f"{processes} worker processes"


def _ending(pid: int, code: int) -> str:
    if code >= 0:
        return f"pid {pid} ended with exit code {code}"
    try:
        return f"pid {pid} was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"pid {pid} was ended by signal {-code}"


def obey(leash: int, worker: Worker) -> None:
    """In a child: stop when the supervisor says so, or is gone."""
    threading.Thread(target=_obey, args=(leash, worker), name="rowcall-leash", daemon=True).start()


def _obey(leash: int, worker: Worker) -> None:
    word = os.read(leash, 1)
    if not word:
        logger.warning("the supervisor is gone; stopping: no new jobs, running ones may finish")
    if word != _AT_ONCE:
        worker.ask_to_stop()
        word = os.read(leash, 1)
    if word == _AT_ONCE:
        worker.stop_at_once()
        if not worker.clock.wait(worker.ended, CHILDREN_AT_ONCE_SECONDS - 1):
            os._exit(1)  # the database does not answer; other workers recover the jobs

"""A worker that owns its process: signals, and replacing itself when every slot is lost."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType

from rowcall.base.clock import Clock
from rowcall.context import logger
from rowcall.worker.pace import (
    AT_ONCE_SECONDS,
    COLLECTED_AFTER,
    SAME_SIGNAL_SECONDS,
    SIGNAL_CHECK_SECONDS,
    SWITCH_SECONDS,
)
from rowcall.worker.worker import Worker


def work(worker: Worker, *, replace: Callable[[], None] | None = None, ready: Callable[[], None] | None = None) -> None:
    """Run until SIGINT or SIGTERM: the first lets handlers finish, the second stops at once.

    `ready` is called once, when all is open and nothing has been claimed yet.
    """
    _own_process()

    def received(count: int) -> None:
        # in another thread: a signal may interrupt code that holds a lock which stopping needs
        threading.Thread(target=_stop, args=(worker, count), daemon=True).start()

    with Signals(worker.clock, received):
        worker.start(ready=ready)
        # with a limit: a signal just before the wait is handled only after it
        while not worker.clock.wait(worker.ended, SIGNAL_CHECK_SECONDS):
            pass
    if worker.exhausted and not worker.stop_asked:
        logger.critical("replacing this process with a new one")
        (replace or replace_process)()
    if worker.failure is not None:
        raise worker.failure


def _stop(worker: Worker, count: int) -> None:
    if count == 1:
        worker.ask_to_stop()
        logger.info("stopping: no new jobs, running ones may finish; a second signal stops at once")
        return
    logger.warning("stopping at once: running jobs are released")
    worker.stop_at_once()
    if not worker.clock.wait(worker.ended, AT_ONCE_SECONDS):
        os._exit(1)  # the database does not answer; other workers recover the jobs


def _own_process() -> None:
    """Choose settings that only the owner of a process may choose.

    The loop releases the interpreter at each statement, and should get it back soon while a handler is busy. What was
    already imported stays for good, so the garbage collector need not check it again.
    """
    sys.setswitchinterval(min(sys.getswitchinterval(), SWITCH_SECONDS))
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECTED_AFTER)


def replace_process() -> None:
    """Start this program again under the same process id. This ends handlers that could not be ended otherwise."""
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


class Signals:
    """While it is entered, SIGINT and SIGTERM call `received` with the number of signals so far."""

    def __init__(self, clock: Clock, received: Callable[[int], None]) -> None:
        self._timer = clock.timer
        self._received = received
        self._count = 0
        self._last_at = -SAME_SIGNAL_SECONDS
        self._former: dict[int, object] = {}

    def __enter__(self) -> None:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._former[number] = signal.signal(number, self._receive)

    def __exit__(self, *_: object) -> None:
        for number, handler in self._former.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def _receive(self, number: int, frame: FrameType | None) -> None:
        now = self._timer()
        if now - self._last_at >= SAME_SIGNAL_SECONDS:  # timeout(1) sends it to the process and to its group
            self._last_at = now
            self._count += 1
            self._received(self._count)

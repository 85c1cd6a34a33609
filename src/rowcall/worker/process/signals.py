"""A worker that owns its process: signals, and replacing itself when every slot is lost."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType

from rowcall.context import logger
from rowcall.worker.worker import Worker

AT_ONCE_SECONDS = 3.0
SAME_SIGNAL_SECONDS = 0.1
SIGNAL_CHECK_SECONDS = 0.5
SWITCH_SECONDS = 0.001
COLLECTED_AFTER = (10_000, 20, 50)


def work(worker: Worker, *, replace: Callable[[], None] | None = None, ready: Callable[[], None] | None = None) -> None:
    """Run until SIGINT or SIGTERM: the first lets handlers finish, the second stops at once.

    `ready` is called once, when all is open and nothing has been claimed yet.
    """
    _own_process()
    signals = _Signals(worker)
    with signals:
        worker.start(ready=ready)
        # with a limit: a signal just before the wait is handled only after it
        while not worker.clock.wait(worker.ended, SIGNAL_CHECK_SECONDS):
            pass
    if worker.exhausted and not worker.stop_asked:
        logger.critical("replacing this process with a new one")
        (replace or replace_process)()
    if worker.failure is not None:
        raise worker.failure


def _own_process() -> None:
    """Choose settings that only the owner of a process may choose.

    The loop releases the interpreter at each statement, and should get it back soon beside a busy handler. What was
    imported by now stays for good, so the garbage collector need not check it again.
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


class _Signals:
    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._received = 0
        self._received_at = 0.0
        self._former: dict[int, object] = {}

    def __enter__(self) -> None:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._former[number] = signal.signal(number, self._receive)

    def __exit__(self, *_: object) -> None:
        for number, handler in self._former.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def _receive(self, number: int, frame: FrameType | None) -> None:
        now = self._worker.clock.timer()
        if self._received and now - self._received_at < SAME_SIGNAL_SECONDS:
            return  # sent both to the process and to its group, as timeout(1) does
        self._received_at = now
        self._received += 1
        # in another thread: a signal may interrupt code that holds a lock which stopping needs
        threading.Thread(target=self._stop, args=(self._received,), daemon=True).start()

    def _stop(self, received: int) -> None:
        if received == 1:
            logger.warning("stopping: no new jobs, running ones may finish; a second signal stops at once")
            self._worker.ask_to_stop()
            return
        logger.warning("stopping at once: running jobs are released")
        self._worker.stop_at_once()
        if not self._worker.clock.wait(self._worker.ended, AT_ONCE_SECONDS):
            os._exit(1)  # the database does not answer; other workers recover the jobs

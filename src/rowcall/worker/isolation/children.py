"""The child processes of a lane: started, replaced and closed."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from rowcall.base.clock import Clock
from rowcall.context import logger
from rowcall.worker.isolation.child_process import GRACE_SECONDS, ChildProcess
from rowcall.worker.isolation.conversation import log_message
from rowcall.worker.isolation.messages import Hello, Prepared


class Children:
    """`gone` is called when a child that was replaced has ended."""

    def __init__(self, hello: Hello, clock: Clock, gone: Callable[[ChildProcess], None]) -> None:
        self._hello = hello
        self._clock = clock
        self._gone = gone
        self._lock = threading.Lock()
        self._all: set[ChildProcess] = set()
        self._closed = False
        self._starter = ThreadPoolExecutor(1, thread_name_prefix="rowcall-child-starter")

    def usable(self, child: ChildProcess | None) -> ChildProcess | None:
        """Return the child, or a new one if it has ended or was asked to end. None if none can be started now."""
        if child is not None and child.is_usable:
            return child
        if child is not None:
            threading.Thread(target=self._remove, args=(child,), daemon=True).start()
        return self.new()

    def new(self) -> ChildProcess | None:
        """Return a child that has imported all it needs. None if none can be started now."""
        if self._closed:
            return None
        try:
            child = self._starter.submit(ChildProcess, self._hello, self._clock).result()
        except (OSError, RuntimeError) as error:
            logger.error("could not start a child process: %s", error)
            return None
        with self._lock:
            self._all.add(child)
            closed = self._closed
        if closed:
            child.kill()
        for message in child.messages():
            if isinstance(message, Prepared):
                return child
            log_message(message)
        code, detail = child.ending().outcome(None)
        if not self._closed:
            logger.error("could not prepare a child process (%s: %s)", code, detail)
        self._remove(child)
        return None

    def _remove(self, child: ChildProcess) -> None:
        child.close()
        with self._lock:
            self._all.discard(child)
        self._gone(child)

    def close(self) -> None:
        """Kill all children: the ones that were asked to end have had their time."""
        with self._lock:
            self._closed = True
            children = list(self._all)
        for child in children:
            child.kill()
        for child in children:
            child.close(GRACE_SECONDS)
        self._starter.shutdown(wait=False)

"""What `make faults`, `make simulate` and `make planted` share: numbers, records, processes, and Ctrl-C."""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import Any

INTERRUPTED = 130
"""The exit code after Ctrl-C, as of a shell."""


def positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be 1 or more, got {number}")
    return number


def record_file(text: str) -> Path:
    """Return the path of a record. Its folder must exist: a run would find that out only at its end."""
    path = Path(text)
    if not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f"the folder {path.parent} does not exist")
    return path


def interrupt_at_sigterm() -> None:
    """Let SIGTERM, which timeout(1) sends, do what Ctrl-C does: otherwise the processes of a pool would stay."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)


@contextmanager
def processes(count: int, begin: Callable[..., object], *arguments: Any) -> Iterator[ProcessPoolExecutor]:
    """Yield new processes, which call `begin` first. After Ctrl-C, each ends at its next `check_interrupt`."""
    pool = ProcessPoolExecutor(count, get_context("spawn"), _begin, (begin, *arguments))
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # also of processes that start now
    try:
        started = [pool.submit(os.getpid) for _ in range(count)]
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    try:
        yield pool
    except KeyboardInterrupt:
        for pid in {future.result() for future in started}:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGINT)
        raise
    finally:
        pool.shutdown(cancel_futures=True)


_interrupted = threading.Event()


def _begin(begin: Callable[..., object], *arguments: Any) -> None:
    signal.signal(signal.SIGINT, lambda *_: _interrupted.set())
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    begin(*arguments)


def check_interrupt() -> None:
    """Raise `KeyboardInterrupt` if Ctrl-C came: in the middle of a case, it would be an error of the case."""
    if _interrupted.is_set():
        raise KeyboardInterrupt

"""Processes and signals: the workers of `rowcall demo` and `rowcall bench`, SIGTERM, keys, changes of files."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import IO

from rowcall.observe.optional_libraries import missing
from rowcall.worker.process.supervisor import LEASH_OPTION

try:
    import termios
    import tty
except ImportError:  # Windows
    termios = None  # type: ignore[assignment]

STOP_SECONDS = 5.0


@contextlib.contextmanager
def working(
    app: str, url: str, *options: str, output: IO[bytes] | None = None, environment: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """Run `rowcall work` as a user would, but on a leash: it ends with this process, however that ends."""
    reading, leash = os.pipe()
    try:
        process = subprocess.Popen(
            [sys.executable, "-m", "rowcall", "work", app, *options, LEASH_OPTION, str(reading)],
            env={**os.environ, **(environment or {}), "ROWCALL_URL": url},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            pass_fds=[reading],
            process_group=0,
        )
    finally:
        os.close(reading)
    try:
        yield process
    finally:
        os.close(leash)
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()  # its children notice, and stop
            process.wait()


@contextlib.contextmanager
def reloading(changed: Callable[[str], None]) -> Iterator[None]:
    """Call `changed`, in another thread, whenever Python files below the current folder have changed."""
    try:
        from watchfiles import PythonFilter, watch
    except ModuleNotFoundError as error:
        raise missing("reload", "reload", error) from None
    stopped = threading.Event()
    logging.getLogger("watchfiles").setLevel(logging.WARNING)

    def wait() -> None:
        for changes in watch(".", watch_filter=PythonFilter(), stop_event=stopped, raise_interrupt=False):
            names = sorted(os.path.relpath(path) for _, path in changes)
            changed(f"{names[0]} has changed" if len(names) == 1 else f"{len(names)} files have changed")

    thread = threading.Thread(target=wait, name="rowcall-reload", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopped.set()


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """End the block on SIGTERM as Ctrl-C does, so that its temporary files and processes are removed."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    former = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, former)


@contextlib.contextmanager
def reading_keys(pressed: Callable[[str], None]) -> Iterator[None]:
    """Call `pressed`, in another thread, with each key, if standard input is a terminal. The key q ends the block as
    Ctrl-C does.
    """
    if termios is None or not sys.stdin.isatty():
        yield
        return
    former = termios.tcgetattr(sys.stdin)
    tty.setcbreak(sys.stdin)

    def read() -> None:
        with contextlib.suppress(OSError):
            while key := os.read(sys.stdin.fileno(), 1):
                if key == b"q":
                    os.kill(os.getpid(), signal.SIGINT)
                    return
                pressed(key.decode(errors="replace"))

    threading.Thread(target=read, name="rowcall-keys", daemon=True).start()
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, former)

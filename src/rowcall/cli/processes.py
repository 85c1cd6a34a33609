"""Processes and signals: the workers of `rowcall demo` and `rowcall bench`, and SIGTERM treated like Ctrl-C."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from typing import IO

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
def quit_key(key: str) -> Iterator[None]:
    """End the block as Ctrl-C does when a key is pressed, if standard input is a terminal."""
    if termios is None or not sys.stdin.isatty():
        yield
        return
    former = termios.tcgetattr(sys.stdin)
    tty.setcbreak(sys.stdin)

    def read() -> None:
        with contextlib.suppress(OSError):
            while pressed := os.read(sys.stdin.fileno(), 1):
                if pressed == key.encode():
                    os.kill(os.getpid(), signal.SIGINT)
                    return

    threading.Thread(target=read, name="rowcall-keys", daemon=True).start()
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, former)

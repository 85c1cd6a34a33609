"""A command of `rowcall` in a real terminal of a given size."""

from __future__ import annotations

import codecs
import fcntl
import os
import re
import signal
import struct
import termios
import threading
from types import TracebackType

from rowcall.testing.process import fork_program
from tests.support import eventually

_SEQUENCES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\r")
_TOP_LEFT = "\x1b[H"


class Terminal:
    """Starts the command, reads all it draws, and ends it with the block."""

    def __init__(self, *words: str, columns: int = 100, lines: int = 50, **environment: str) -> None:
        self._master, slave = os.openpty()
        self.resize(columns, lines)
        inherited = ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES")
        kept = {name: value for name, value in os.environ.items() if name not in inherited}
        self.process = fork_program(
            ("-m", "rowcall", *words),
            (slave, slave, slave),
            {**kept, "TERM": "xterm-256color", **environment},
            new_session=True,
        )
        os.close(slave)
        self.drawn = ""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self._reader.join()
        os.close(self._master)

    def resize(self, columns: int, lines: int) -> None:
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    @property
    def text(self) -> str:
        """All of it, without colours."""
        return _SEQUENCES.sub("", self.drawn)

    @property
    def screen(self) -> list[str]:
        """The lines of the last whole picture."""
        pictures = self.drawn.split(_TOP_LEFT)
        return _SEQUENCES.sub("", pictures[-2] if len(pictures) > 2 else pictures[-1]).splitlines()

    def wait_for(self, words: str) -> None:
        eventually(lambda: words in "\n".join(self.screen), message=f"{words!r} on the screen {self.screen}")

    def type(self, words: str) -> None:
        os.write(self._master, words.encode())

    def interrupt(self) -> int:
        """Press Ctrl-C, and return the exit code."""
        self.process.send_signal(signal.SIGINT)
        return self.wait()

    def wait(self) -> int:
        code = self.process.wait(30)
        self._reader.join(30)
        return code

    def _read(self) -> None:
        decoder = codecs.getincrementaldecoder("utf-8")()
        try:
            while data := os.read(self._master, 65536):
                self.drawn += decoder.decode(data)
        except OSError:
            pass  # Linux says so when the last writer is gone


def on_a_terminal(*words: str, columns: int = 100, lines: int = 50, **environment: str) -> str:
    """Return what a command prints on a terminal, from its beginning to its end."""
    with Terminal(*words, columns=columns, lines=lines, **environment) as terminal:
        terminal.wait()
    return terminal.drawn

"""A console whose output goes to a pipe or a file: no line is broken, and none ends in spaces."""

from __future__ import annotations

import re
from typing import Any

from rich.console import Console

from rowcall.cli.present.output import write

_WIDTH = 4000
_SPACES_AT_THE_END = re.compile(r"[ \t]+$", re.MULTILINE)


class PipedConsole(Console):
    def __init__(self) -> None:
        super().__init__(width=_WIDTH, highlight=False, soft_wrap=False)

    def print(self, *objects: Any, **options: Any) -> None:
        with self.capture() as printed:
            super().print(*objects, **options)
        write(_SPACES_AT_THE_END.sub("", printed.get()))

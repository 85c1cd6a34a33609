"""Standard output: one JSON object, or text that fits a terminal, a pipe or a CI log."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import msgspec

from rowcall.cli.present.text_tables import block, has_unicode
from rowcall.domain.value import Value

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

NARROW_COLUMNS = 100
_PIPE_COLUMNS = 4000


def show(*parts: RenderableType, style: str | None = None, wrap: bool = True) -> None:
    """Print text and tables. Without `wrap`, and into a pipe, no line is broken; in a pipe, none ends in spaces."""
    printed = [block(part) if isinstance(part, str) else part for part in parts]
    out = console()
    if sys.stdout.isatty():
        out.print(*printed, style=style, soft_wrap=not wrap)
        return
    with out.capture() as captured:
        out.print(*printed, style=style)
    write("\n".join(line.rstrip(" \t") for line in captured.get().split("\n")))


def show_section(heading: str, *parts: RenderableType, omitted: str = "", wrap: bool = True) -> None:
    """Print a heading, the parts with an empty line between them, and what to say about the rest."""
    show(f"\n{heading}", style="bold")
    for number, part in enumerate(parts):
        if number:
            show("")
        show(part, wrap=wrap)
    if omitted:
        show(omitted, style="dim")


def console() -> Console:
    """Return a console with colours on a terminal, unless $NO_COLOR is set."""
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else _PIPE_COLUMNS, highlight=False, soft_wrap=False)


def is_narrow() -> bool:
    return console().width < NARROW_COLUMNS


def print_json(value: object) -> None:
    """Print one object on one line."""
    encoded = as_json(value).decode()
    escaped = encoded if has_unicode() else json.dumps(json.loads(encoded), separators=(",", ":"))
    write(f"{escaped}\n")


def as_json(value: object) -> bytes:
    return msgspec.json.encode(_without_hidden(value))


def _without_hidden(value: object) -> object:
    """Return what is printed, without the fields of values that are shown nowhere."""
    if isinstance(value, Value):
        return value.to_dict()
    if isinstance(value, dict):
        return {name: _without_hidden(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_without_hidden(part) for part in value]
    return value


def write(printed: str) -> None:
    """Write to standard output as it is set up: `click.echo` would send UTF-8 to one that is set to ASCII."""
    sys.stdout.write(printed)
    sys.stdout.flush()

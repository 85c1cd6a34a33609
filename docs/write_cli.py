"""Write what `rowcall COMMAND --help` says into docs/cli.md, under the heading of each command: `make docs`."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import click

from rowcall.cli.main import COMMANDS, main

PAGE = Path(__file__).with_name("cli.md")
BEGIN, END = "<!-- from --help -->", "<!-- end of --help -->"
COMMON = ("--local", "--url", "--json")  # explained once on the page, as are the filters
FILTERING = "delete"  # it has no options but the filters, and these are in the table of `jobs`, too
_CHOICES = re.compile(r" \[([\w-]+(?:\|[\w-]+)+)\]$")
_AS_TYPED = re.compile(r"(?<![\w/`-])(--[a-z][\w-]*|\$[A-Z_]+)")


def written(page: str) -> str:
    """Return the page with the help of each command after its heading."""
    for name in COMMANDS:
        before, heading, after = page.partition(f"\n## rowcall {name}\n")
        if not heading:
            raise SystemExit(f"{PAGE.name} has no heading for rowcall {name}")
        if after.startswith(f"\n{BEGIN}\n"):
            after = after.partition(f"{END}\n")[2]
        text = "\n\n".join(_parts(name))
        page = f"{before}{heading}\n{BEGIN}\n\n{text}\n\n{END}\n{after}"
    return page


def _parts(name: str) -> Iterator[str]:
    command, context = _command(name)
    yield f"`{command.get_usage(context).removeprefix('Usage: ')}`"
    for paragraph in re.split(r"\n\s*\n", inspect.cleandoc(command.help or "")):
        if not paragraph.strip().startswith(
            ("\b", "With --json:", "With --dry-run --json:")
        ):  # examples are on the page
            text = " ".join(paragraph.split())
            yield f"`{text}`" if paragraph.startswith("    ") else _marked(text)
    rows, usual, filters = _rows(name), _rows("show"), _rows(FILTERING)
    common = [option for option in COMMON if rows.get(option) == usual[option]]
    also = [f"`{option}`" for option in common]
    if name == FILTERING:
        filters = _rows("jobs")
    if name != "jobs" and {"--created-after", "--payload"} <= rows.keys():
        also.insert(0, "the [filters](#filters)")
        common += [option for option in rows if option in filters and option != "--limit"]
    if table := [row for option, row in rows.items() if option not in common]:
        yield "\n".join(["| option | meaning |", "| --- | --- |", *table])
    if also:
        yield f"Also {', '.join(also)}."


def _command(name: str) -> tuple[click.Command, click.Context]:
    parent = click.Context(main, info_name="rowcall")
    command = main.get_command(parent, name)
    assert command is not None
    return command, click.Context(command, parent, name)


def _rows(name: str) -> dict[str, str]:
    """Return the rows of the table of options, by option."""
    command, context = _command(name)
    options = [option for option in command.params if isinstance(option, click.Option)]
    records = {option.opts[0]: option.get_help_record(context) for option in options}
    return {option: _row(*record) for option, record in records.items() if record is not None}


def _row(term: str, meaning: str) -> str:
    if choices := _CHOICES.search(term):
        term = term[: choices.start()]
        *first, last = (f"`{choice}`" for choice in choices[1].split("|"))
        meaning = f"{meaning} One of {', '.join(first)} and {last}."
    meaning = meaning.replace("  [", " [").replace("|", " or ")
    return f"| `{term.replace('INTEGER RANGE', 'N').replace('INTEGER', 'N')}` | {_marked(meaning)} |"


def _marked(text: str) -> str:
    """Return the text as Markdown, with what is typed as code."""
    return _AS_TYPED.sub(r"`\1`", text.replace("*", "\\*").replace("<", "&lt;"))


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    print(f"{PAGE.name} is written")

"""The pages of the documentation: their code blocks, links and headings."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
DOCS = ROOT / "docs"
WRITING = DOCS / "README.md"  # about the pages, and not one of them
PAGES = [README, *sorted({*DOCS.glob("*.md")} - {WRITING})]

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_IN_AN_EMPTY_FOLDER = re.compile(r"^<!-- in an empty folder -->$", re.MULTILINE)
_NOT_RUN = re.compile(r"<!-- not run: (.+?) -->\n\Z")
_INLINE_CODE = re.compile(r"`[^`\n]+`")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_FILE_NAME = re.compile(r"# ((?:\w+/)*\w+\.py)\n")
_EXIT_CODE = re.compile(r"#.*\bexit code (\d+)")


class Block(NamedTuple):
    """A fenced block. `not_run` is the reason given in a comment on the line above it, if there is one."""

    page: Path
    line: int
    language: str
    text: str
    not_run: str | None

    @property
    def location(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    @property
    def file_name(self) -> str | None:
        """Return the name of the file to write the block to, from its first line: `# app.py`."""
        found = _FILE_NAME.match(self.text)
        return found[1] if found else None

    def is_sql_of(self, database: str) -> bool:
        """Return whether it is for that database only, by the page's name or a comment in its first line."""
        return self.page.stem == database.lower() or self.text.startswith(f"-- {database}\n")

    @property
    def commands(self) -> list[Command]:
        """Return the `rowcall` commands of a shell block."""
        lines = self.text.replace("\\\n", " ").splitlines()
        return [Command(line.partition(" # ")[0].strip(), _exit_code(line)) for line in lines if _is_ours(line)]


class Command(NamedTuple):
    text: str
    exit_code: int


def _is_ours(line: str) -> bool:
    return line.startswith("rowcall ")


def _exit_code(line: str) -> int:
    found = _EXIT_CODE.search(line)
    return int(found[1]) if found else 0


def read(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def blocks(page: Path) -> Iterator[Block]:
    text = read(page)
    for found in _FENCE.finditer(text):
        before = text[: found.start()]
        reason = _NOT_RUN.search(before)
        yield Block(page, before.count("\n") + 1, found[1], found[2], reason[1] if reason else None)


def parts(page: Path) -> list[list[Block]]:
    """Return the blocks of each part of a page that runs alone: a comment begins the next part."""
    found: list[list[Block]] = [[]]
    begins = [read(page)[: mark.start()].count("\n") for mark in _IN_AN_EMPTY_FOLDER.finditer(read(page))]
    for block in blocks(page):
        while begins and begins[0] < block.line:
            found.append([])
            del begins[0]
        found[-1].append(block)
    return [part for part in found if part]


PARTS = {  # by the name of the page, with a number from the second part on
    page.stem if number == 1 else f"{page.stem}-{number}": part
    for page in PAGES
    for number, part in enumerate(parts(page), start=1)
}
SEPARATE = {  # parts that other test modules run in separate processes
    name for name, part in PARTS.items() if any(re.search(r"sentry_sdk|django\.setup", block.text) for block in part)
}


def prose(page: Path) -> str:
    """Return the page without its blocks."""
    return _FENCE.sub("", read(page))


def without_code(page: Path) -> str:
    """Return the page with its blocks and its code in lines left empty; the lines keep their numbers."""
    text = _FENCE.sub(lambda block: "\n" * block[0].count("\n"), read(page))
    return _INLINE_CODE.sub("", text)


def links(page: Path) -> list[str]:
    return _LINK.findall(prose(page))


def anchors(page: Path) -> set[str]:
    """Return the headings, as links name them."""
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in _HEADING.findall(prose(page))}


def section(page: Path, heading: str) -> str:
    """Return the text under a heading, up to the next one of its level or above."""
    found = re.search(rf"^(##+) {re.escape(heading)}\n", read(page), re.MULTILINE)
    assert found, f"{page.name} has no section {heading!r}"
    return re.split(rf"^#{{2,{len(found[1])}}} ", read(page)[found.end() :], maxsplit=1, flags=re.MULTILINE)[0]

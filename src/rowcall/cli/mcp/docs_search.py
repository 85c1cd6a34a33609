"""Search of Rowcall's documentation, which is in the package: no network is needed."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

MOST_SECTIONS = 5
LONGEST_SECTION = 2_000
_HEADING_WEIGHT = 4
_WORD = re.compile(r"[a-z0-9_]+")
_HEADING = re.compile(r"#{1,3} ")


class DocsSection(NamedTuple):
    page: str
    heading: str
    text: str
    words: Counter[str]


def search_docs(query: str) -> list[dict[str, str]]:
    """Return the sections that fit the words of the query best: those with rare words of it come first."""
    asked = set(_words(query))
    listed = sections()
    known = Counter(word for section in listed for word in asked & section.words.keys())
    weights = {word: math.log(1 + len(listed) / known[word]) for word in asked if known[word]}

    def score(section: DocsSection) -> float:
        length = 1 + sum(section.words.values()) / 400
        return sum(weight * math.log1p(section.words[word]) for word, weight in weights.items()) / math.sqrt(length)

    best = sorted((section for section in listed if score(section) > 0), key=score, reverse=True)
    return [
        {"page": section.page, "heading": section.heading, "text": section.text[:LONGEST_SECTION]}
        for section in best[:MOST_SECTIONS]
    ]


@cache
def sections() -> tuple[DocsSection, ...]:
    return tuple(section for page in _pages() for section in _sections_of(page))


def _pages() -> list[Path]:
    """Return the pages in the package, or those of the repository if the package is used from there."""
    inside = Path(str(files("rowcall"))) / "docs"
    folder = inside if inside.is_dir() else Path(__file__).parents[4] / "docs"
    return sorted(page for page in folder.glob("*.md") if page.name != "README.md")


def _sections_of(page: Path) -> Iterator[DocsSection]:
    """Yield a section for each heading, down to the third level."""
    parts: list[list[str]] = []
    in_code = False
    for line in page.read_text(encoding="utf-8").splitlines():
        in_code ^= line.startswith("```")
        if not parts or (not in_code and _HEADING.match(line)):
            parts.append([])
        parts[-1].append(line)
    title = parts[0][0].lstrip("# ") if parts else ""
    for heading, *body in parts:
        named = heading.lstrip("# ")
        words = Counter(_words(" ".join(body)))
        for word in _words(f"{named} {title} {page.stem}"):
            words[word] += _HEADING_WEIGHT
        said = named if named == title else f"{title}: {named}"
        yield DocsSection(page.name, said, "\n".join([heading, *body]).strip(), words)


def _words(text: str) -> list[str]:
    """Return the words in small letters, without the plural s."""
    return [word[:-1] if len(word) > 3 and word.endswith("s") else word for word in _WORD.findall(text.lower())]

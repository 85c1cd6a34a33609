"""Words that the style guide bans do not come back: in the docs, in the examples, and in clean rooms of the source."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.pages import PAGES, ROOT, prose, without_code

SOURCE = ROOT / "src" / "rowcall"
CONTRIBUTING = ROOT / "CONTRIBUTING.md"

BANNED = {
    r"gives|gave|giv(?:e|es|en|ing) back": "returns, provides; for a job: release",
    r"wants?|wanted": "must be, needs",
    r"(?<!there )is no (?!longer|more|less)": "is not a",
    r"nobody|somebody|anybody|whoever|whomever": "no one, someone, another process",
    r"those (?:that|who|which)": "the jobs that …, the workers that …",
    r"of (?:its|their|our|one's) own|of (?:ours|theirs|yours)": "its own …, a separate …",
    r"in vain|anew|afresh": "without result, again",
    r"all the same|at hand|what waits|that which|(?-i:(?<!there )is none)": "say it plainly",
    r"goes on|go on|went on|going on": "continues, resumes",
    r"lent|lend|lends|lending|loans?|loaned|borrow|borrowed|borrows": "the caller's connection",
    r"seats?|seated": "slot",
    r"lookouts?|outlooks?": "wait, waiter",
    r"tid(?:y|ies|ied)|thin(?:s|ned)? out|mend|mends|mended|sweeps?|swept": "prune, fold, repair",
    r"signs? of life|(?:a|the|its|last|next|whose|own) beats?": "heartbeat",
    r"ledgers?": "liveness file",
    r"(?:tells?|told)(?! \w+ apart| apart)": "notify, report, say",
    r"news": "notification",
    r"(?:takes?|took|in) the place of|stands? for|stands? in": "replaces",
    r"as (?:it|they) (?:is|are|was|were) now|by now": "say it plainly",
}
MOST_WORDS = 27
_BANNED = [(re.compile(rf"(?<![\w`'.-])(?:{words})(?![\w`'-])", re.I), instead) for words, instead in BANNED.items()]

_EXPRESSION = re.compile(r"\{[^{}]*\}")

# Rooms of `src/rowcall` that still have such words. Only ever remove a line here.
NOT_CLEAN_YET: set[str] = set()


def rooms() -> list[str]:
    return sorted(path.name for path in SOURCE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists())


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """Return the lines of a page without its code, or of the comments and string literals of a module."""
    if path.suffix == ".md":
        before, _, rest = without_code(path).partition("\n## Glossary\n")  # which lists them
        glossary, _, after = rest.partition("\n## ")
        skipped = "\n" * (glossary.count("\n") + 3)
        yield from enumerate((before + skipped + after).splitlines(), 1)
        return
    for token in tokenize.generate_tokens(io.StringIO(path.read_text(encoding="utf-8")).readline):
        if token.type in (tokenize.COMMENT, tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", -1)):
            text = token.string if token.string != '"nobody"' else ""  # the name of a user of the system
            yield from enumerate(_EXPRESSION.sub("", text).splitlines(), token.start[0])


def sentences(page: Path) -> Iterator[str]:
    """Return the sentences of a page outside of its tables, with one word for each name and link."""
    text = "\n".join("" if line.startswith("|") else line for line in prose(page).splitlines())
    text = re.sub(r"(?m)^(\s*(?:[-*]|\d+\.) |#+ )", r"\n\n", text)  # an item of a list is a paragraph
    text = re.sub(r"`[^`]+`", "code", re.sub(r"\]\([^)]*\)", "]", text))
    text = re.sub(r"\bcode(?:,? (?:and |or )?code)+\b", "code", text)  # a list of names reads as one
    for paragraph in re.split(r"\n\s*\n", text):
        yield from re.split(r"(?<=[.!?:;])\s+", paragraph.strip())


def banned_in(path: Path) -> list[str]:
    return [
        f"{path.relative_to(ROOT)}:{number}: {found[0]!r} (write: {instead})"
        for number, line in texts(path)
        for pattern, instead in _BANNED
        for found in pattern.finditer(line)
    ]


def banned_in_room(room: str) -> list[str]:
    path = SOURCE / room
    modules = [path] if path.suffix == ".py" else sorted(path.rglob("*.py"))
    return [line for module in modules for line in banned_in(module)]


READ = [*PAGES, CONTRIBUTING, ROOT / "CHANGELOG.md", *sorted((ROOT / "examples").rglob("*.md"))]
CODE = [path for name in ("examples", "benchmarks", "tests/examples") for path in sorted((ROOT / name).rglob("*.py"))]


@pytest.mark.parametrize("path", [*READ, *CODE], ids=lambda path: str(path.relative_to(ROOT)))
def test_pages_and_examples_use_plain_words(path: Path) -> None:
    assert banned_in(path) == []


@pytest.mark.parametrize("path", READ, ids=lambda path: str(path.relative_to(ROOT)))
def test_sentences_are_short(path: Path) -> None:
    assert [sentence for sentence in sentences(path) if len(sentence.split()) > MOST_WORDS] == []


@pytest.mark.parametrize("room", sorted({*rooms()} - NOT_CLEAN_YET))
def test_clean_rooms_use_plain_words(room: str) -> None:
    assert banned_in_room(room) == []


def test_a_room_that_became_clean_stays_clean() -> None:
    assert rooms() == sorted({*rooms()} | NOT_CLEAN_YET), "NOT_CLEAN_YET names a room that does not exist"
    assert [room for room in sorted(NOT_CLEAN_YET) if not banned_in_room(room)] == []

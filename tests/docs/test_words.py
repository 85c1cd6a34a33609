"""Words that the style guide bans do not come back: in the docs, the examples, the tests and the source."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.pages import PAGES, ROOT, WRITING, prose, without_code

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
    r"besides?": "next to, with, in addition to",
    r"alike": "the same way",
    r"meanwhile": "in between, while …",
    r"by (?:itself|themselves)": "automatically, alone, on its own",
    r"so many": "this many, that many",
}
MOST_WORDS = 27
NAMES = {'"nobody"', '"wanted"'}  # a user of the system, and a field of `SchemaMismatch`


_BANNED = [(re.compile(rf"(?<![\w`'.-])(?:{words})(?![\w`'-])", re.I), instead) for words, instead in BANNED.items()]
_ANY_BANNED = re.compile(rf"(?<![\w`'.-])(?:{'|'.join(BANNED)})(?![\w`'-])", re.I)

_EXPRESSION = re.compile(r"\{[^{}]*\}")


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
            text = token.string if token.string not in NAMES else ""
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
    if path.suffix == ".py" and not _ANY_BANNED.search(path.read_text(encoding="utf-8")):
        return []  # without the cost of its tokens
    return [
        f"{path.relative_to(ROOT)}:{number}: {found[0]!r} (write: {instead})"
        for number, line in texts(path)
        for pattern, instead in _BANNED
        for found in pattern.finditer(line)
    ]


READ = [
    *PAGES,
    *(CONTRIBUTING, WRITING, ROOT / "CHANGELOG.md", ROOT / "tests" / "README.md"),
    *sorted((ROOT / "examples").rglob("*.md")),
]
CODE = ("src/rowcall", "tests", "benchmarks", "examples")


def test_pages_use_plain_words() -> None:
    assert [line for path in READ for line in banned_in(path)] == []


@pytest.mark.parametrize("folder", CODE)
def test_code_uses_plain_words(folder: str) -> None:
    modules = [path for path in sorted((ROOT / folder).rglob("*.py")) if path != Path(__file__)]
    assert modules != []
    assert [line for module in modules for line in banned_in(module)] == []


def test_sentences_are_short() -> None:
    found = [(path, sentence) for path in READ for sentence in sentences(path) if len(sentence.split()) > MOST_WORDS]
    assert found == []

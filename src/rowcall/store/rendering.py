"""Templates of SQL: names in angle brackets, such as `<job>`, `<now>` or `<ids:2>`, are filled in once, at start.

Every database brings its own words (`sqlite/words.py`, `postgres/words.py`). These are common to all: the tables, and
the states of a job, which come from the table in `rowcall.domain.lifecycle`.

| word | stands for |
| --- | --- |
| `<job>`, `<edge>`, … | a table; `<prefix>` is what their names begin with |
| `<pending>`, `<running>`, … | one state |
| `<waiting>`, `<unfinished>`, `<finished>` | a list of states, for `in` |
| `<to:claim>` | the state that a move leads to, from every state that it changes |
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

from rowcall.domain.job import FINISHED, WAITING, Status
from rowcall.domain.lifecycle import TABLE, Move

Word = str | Callable[[str], str]
Words = Mapping[str, Word]

_WORD = re.compile(r"<([a-z_]+)(?::([^<>]*))?>")


def literals(texts: Iterable[str]) -> str:
    """Return the texts as an SQL list."""
    return "(" + ", ".join(f"'{text}'" for text in texts) + ")"


def _target(move: str) -> str:
    (status,) = {rule.target for rule in TABLE if rule.move is Move(move) and rule.target is not rule.source}
    assert status is not None
    return f"'{status}'"


STATES: Words = {
    **{status.value: f"'{status}'" for status in Status},
    "waiting": literals(WAITING),
    "unfinished": literals((*WAITING, Status.RUNNING)),
    "finished": literals(FINISHED),
    "to": _target,
}


def render(template: str, words: Words) -> str:
    """Return the SQL; `KeyError` for a word that is not known."""

    def fill(found: re.Match[str]) -> str:
        word = words[found[1]]
        return word if isinstance(word, str) else word(found[2])

    before = ""
    while before != template:  # words may stand for templates
        before, template = template, _WORD.sub(fill, template)
    return template

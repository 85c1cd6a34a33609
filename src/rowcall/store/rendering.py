"""Templates of SQL: words in angle brackets, such as `<job>`, `<now>` or `<text:2>`, are filled in once, at start.

Every database has its own words (`sqlite/words.py`, `postgres/words.py`). The states of a job are common to all; they
come from the table in `rowcall.domain.lifecycle`.

| word | meaning |
| --- | --- |
| `<job>`, `<edge>`, … | a table; `<prefix>` is what their names begin with |
| `<named:job>` | the name of a table as a text, for functions that take one |
| `<pending>`, `<running>`, … | one state |
| `<lost>`, `<released>`, `<snoozed>` | how an attempt ended, where that is not a state of its job |
| `<waiting>`, `<unfinished>`, `<finished>` | a list of states, for `in` |
| `<to:claim>` | the state that a move leads to, from every state that it changes |
| `<clock>`, `<now>` | the database's clock; parameter 1, or the clock where that is null |
| `<text:2>`, `<int:2>`, `<bigint:2>`, `<real:2>`, `<json:2>` | parameter 2, of that type |
| `<time:2>` | parameter 2, milliseconds, as a time of the database |
| `<ms:column>`, `<ms_or_null:column>`, `<ms_after:column>` | a time as milliseconds; null for infinity; rounded up |
| `<span:column>` | milliseconds, to add to a time |
| `<interval:2>` | parameter 2, milliseconds, to add to a time |
| `<job_columns>` | the columns of the view of jobs, called `job`, that `job_from_row` expects |
| `<next:job.lease>` | one more, but never beyond what the column takes |
| `<for_update>` | the row lock, where there are many writers |
| `id <in_ids:2>`, `name <in_texts:2>` | whether the value is in the list in parameter 2 |
| `from <ids:2>`, `from <texts:2>` | the list in parameter 2, as `given.id`, `given.item` |
| `from <rows:2>`, `<fields:text int time>` | the JSON array of arrays in parameter 2, and the fields of each |
| `id <in_rows> select id from … <end_rows>` | whether the value is in the rows of a subquery, which is run first |
| `<after:rank, id>` | whether a row of the queue and type in parameters 1 and 2 is after the place in the next ones |
| `<as_written>` | ends a subquery that must be run as it is written |
| `<by_id:column>` | a text in a condition on ids: no partial index replaces the ids |
| `<text_of:column>` | a JSON column as text |
| `<is_time:column>` | whether it is a time that Python has, in a column that is not checked |
| `<payload_holds:2>` | whether the payload of `job` has the values in parameter 2 |
| `<same:a, b>` | whether both are equal, or both null |
| `<indexed:job_due>` | the index to use, where a database needs that |
| `<for_update>`, `<skip_locked>` | lock the rows; skip rows that another transaction has locked |
| `<rounded:a>`, `<shown:column>` | a number, a time, to be read by people |
| `(a <covering:b, c>)` | columns of an index that are there to be read from it |
| `<place_in:text, part>` | where the part begins, or 0 |
| `<separator>` | what is between the parts of the key of a ready row |
| `<least:a, b>`, `<greatest:a, b>` | the smaller, the larger of the values |
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

from rowcall.domain.job import FINISHED, WAITING, Status
from rowcall.domain.lifecycle import TABLE, Move
from rowcall.domain.outcome import OUTCOMES

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
    **{OUTCOMES[move]: f"'{OUTCOMES[move]}'" for move in (Move.RECOVER, Move.RELEASE, Move.SNOOZE)},
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
    while before != template:  # words may be templates
        before, template = template, _WORD.sub(fill, template)
    return template

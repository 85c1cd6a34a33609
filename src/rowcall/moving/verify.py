"""Compares what was copied with the source, while that is in use.

A job that differs must be noted as changed: then it is copied again before the switch. So what is left out of the
comparison is compared by no one, but replaced as a whole.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from rowcall.domain.errors import DataRefused
from rowcall.queue import Backend
from rowcall.store.dialect import Dialect
from rowcall.store.moves import copying
from rowcall.store.moves.copying import Rows
from rowcall.store.moves.tables import MOVED, OWNED
from rowcall.store.statement import Plan, Row

JOBS_AT_ONCE = 1000
SAMPLES = 20


class Verified(NamedTuple):
    """How many jobs were counted, and how many were compared with all that belongs to them."""

    counted: int = 0
    compared: int = 0


def verify(source: Backend, target: Backend, *, full: bool, report: Callable[[int, int], None]) -> Verified:
    """Compare the numbers of jobs by state and task, and samples of the rows, or all."""
    counted = _compare_counts(source, target)
    ((highest,),) = source.database.read(source.dialect.shared("select coalesce(max(id), 0) from <job>"))
    upto, compared = int(str(highest)), 0
    starts = range(0, upto, JOBS_AT_ONCE)
    step = 1 if full else max(1, len(starts) // SAMPLES)
    chosen = starts[::step]
    for number, start in enumerate(chosen, 1):
        compared += _compare_rows(source, target, start, start + JOBS_AT_ONCE)
        report(number, len(chosen))
    return Verified(counted, compared)


def _noted(source: Backend) -> set[int]:
    noted = source.database.read(copying.noted(source.dialect, 2**31))
    return set(noted.ids)


def _compare_counts(source: Backend, target: Backend) -> int:
    """Count all jobs, except the jobs that will be copied again. The source counts and notes in one snapshot."""
    here, changed = source.database.read(_counts_and_changes(source.dialect), snapshot=True)
    there = target.database.read(copying.counts_without(target.dialect, changed))
    if here != there:
        differing = sorted(key for key in here.keys() | there.keys() if here[key] != there[key])
        status, task = differing[0]
        raise DataRefused(
            f"{target.database.name} has {there[differing[0]]} jobs of {task} that are {status}, and"
            f" {source.database.name} has {here[differing[0]]}"
        )
    return sum(here.values())


def _counts_and_changes(dialect: Dialect) -> Plan[tuple[Counter[tuple[str, str]], list[int]]]:
    changed = (yield from copying.noted(dialect, 2**31)).ids
    return (yield from copying.counts_without(dialect, changed)), changed


def _compare_rows(source: Backend, target: Backend, after: int, upto: int) -> int:
    """Compare jobs, with all that belongs to them. The target is read first, and the notes of changes last."""
    there = target.database.read(copying.read_after(target.dialect, after, upto, JOBS_AT_ONCE))
    here = source.database.read(copying.read_after(source.dialect, after, upto, JOBS_AT_ONCE), snapshot=True)
    differing: dict[int, str] = {}
    for name in OWNED:
        table = MOVED[name]
        place = table.position(table.of_job)
        for row in canonical(here, name) ^ canonical(there, name):
            differing.setdefault(int(str(row[place])), name)
    if differing and (wrong := sorted(differing.keys() - _noted(source))):
        raise DataRefused(
            f"{target.database.name}: job {wrong[0]} differs from {source.database.name}, in {differing[wrong[0]]};"
            f" so do {len(wrong) - 1} others"
        )
    return len(here.get("job", ()))


def canonical(rows: Rows, name: str) -> set[Row]:
    """Return the rows of a table, with JSON as every database would write it."""
    table = MOVED[name]
    json = [place for place, (_, kind) in enumerate(table.columns) if kind == "jsonb"]
    return {_with_json(row, json) for row in rows.get(name, ())}


def _with_json(row: Row, places: Sequence[int]) -> Row:
    values = list(row)
    for place in places:
        if isinstance(text := values[place], str):
            values[place] = msgspec.json.encode(msgspec.json.decode(text), order="sorted")
    return tuple(values)

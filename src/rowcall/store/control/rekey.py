"""Write rows again whose texts were encrypted again. A row that another transaction has changed is left as it is."""

from __future__ import annotations

from collections.abc import Sequence

from rowcall.store.blobs.references import refer_to
from rowcall.store.dialect import Dialect
from rowcall.store.queries import control as queries
from rowcall.store.queries.control import History, LogText, SignalText, StepTexts, StreamText, Texts
from rowcall.store.statement import Plan


def rewrite_jobs(dialect: Dialect, changes: Sequence[tuple[Texts, Texts]]) -> Plan[int]:
    """Write jobs, given before and after; return how many were as they are given."""
    written = 0
    for before, after in changes:
        if (yield from dialect.ask(queries.REKEY_JOB, *after[:-1], *before[1:-1])):
            written += 1
            yield from refer_to(dialect, [after.payload, after.result], [after.id] * 2)
    return written


def rewrite_attempts(dialect: Dialect, changes: Sequence[tuple[History, History]]) -> Plan[int]:
    for _, after in changes:
        yield from dialect.ask(queries.REKEY_ATTEMPT, *after[:-1])
    return len(changes)


def rewrite_steps(dialect: Dialect, changes: Sequence[tuple[StepTexts, StepTexts]]) -> Plan[int]:
    written = 0
    for before, after in changes:
        if (yield from dialect.ask(queries.REKEY_STEP, *after[:5], *before[2:5])):
            written += 1
            yield from refer_to(dialect, [after.result], [after.job_id])
    return written


def rewrite_signals(dialect: Dialect, changes: Sequence[tuple[SignalText, SignalText]]) -> Plan[int]:
    for _, after in changes:
        yield from dialect.ask(queries.REKEY_SIGNAL, after.id, after.value)
        yield from refer_to(dialect, [after.value], [after.job_id])
    return len(changes)


def rewrite_streams(dialect: Dialect, changes: Sequence[tuple[StreamText, StreamText]]) -> Plan[int]:
    for _, after in changes:
        yield from dialect.ask(queries.REKEY_STREAM, *after[:-1])
    return len(changes)


def rewrite_logs(dialect: Dialect, changes: Sequence[tuple[LogText, LogText]]) -> Plan[int]:
    written = 0
    for before, after in changes:
        written += len((yield from dialect.ask(queries.REKEY_LOG, *after[:-1], before.lines)))
    return written


def rewrite_schedule(dialect: Dialect, name: str, before: str, after: str) -> Plan[None]:
    yield from dialect.ask(queries.REKEY_SCHEDULE, name, after, before)

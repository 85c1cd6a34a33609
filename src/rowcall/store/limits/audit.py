"""Notes of what people and jobs did to limits."""

from __future__ import annotations

from rowcall.store.dialect import Dialect
from rowcall.store.queries import limits as queries
from rowcall.store.statement import Plan

MOST_AUDITED = 1000


def audit(dialect: Dialect, event: str, limit: str, actor: str | None, detail: str) -> Plan[None]:
    """Note what happened to a limit, and keep the newest notes."""
    yield from dialect.ask(queries.AUDIT, event, limit, actor, detail)
    yield from dialect.ask(queries.TRIM_AUDIT, MOST_AUDITED)

"""The status that is kept with the tags of a job, so that one index finds both."""

from __future__ import annotations

from collections.abc import Collection

from rowcall.store.dialect import Dialect
from rowcall.store.jobs.queries import ANY_TAG, RETAG
from rowcall.store.statement import Plan


def retag(dialect: Dialect, job_ids: Collection[int]) -> Plan[None]:
    """Copy the status of these jobs to their tags. PostgreSQL has a trigger for that, and nothing is run there."""
    if job_ids and any((yield from dialect.ask(ANY_TAG))):
        yield from dialect.ask(RETAG, job_ids)

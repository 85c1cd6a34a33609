"""A lock by a number is the same on every connection, and another one in a schema with tables of the same names."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from urllib.parse import quote

import psycopg
import pytest

from rowcall import Rowcall
from rowcall.app import queue_of
from rowcall.store.claims.demand import Demand
from rowcall.store.claims.round import find_work
from rowcall.store.dialect import Dialect
from rowcall.store.limits.admission import lock_limits
from rowcall.store.queries.claims import FIND_WORK_AND_LOCK
from rowcall.store.queries.workers import LOCK_WORKER
from tests.conformance.worker_parts import StoreWorker
from tests.store.postgres.databases import fresh_database
from tests.store.postgres.stepping import Stepper

SCHEMAS = ("public", "te'nant $1")


def in_schema(url: str, schema: str) -> str:
    path = f'-csearch_path="{schema}"'.replace(" ", "\\ ")
    return f"{url}{'&' if '?' in url else '?'}options={quote(path)}"


@pytest.fixture
def url(postgres_server_url: str) -> Iterator[str]:
    with fresh_database(postgres_server_url) as url, psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f'create schema "{SCHEMAS[1]}"'.encode())
        yield url


@pytest.mark.parametrize("schema", SCHEMAS)
def test_own_and_callers_connections_have_the_same_locks(url: str, schema: str) -> None:
    with ExitStack() as stack:
        here, elsewhere = (
            stack.enter_context(Rowcall(in_schema(url, name))) for name in (schema, *set(SCHEMAS) - {schema})
        )
        for jobs in (here, elsewhere):
            jobs.migrate()
            StoreWorker(jobs, "worker")
        own, other = queue_of(here).dialect, queue_of(elsewhere).dialect
        of_caller = queue_of(here).database.read(own.for_caller())
        other_url = in_schema(url, next(iter({*SCHEMAS} - {schema})))

        def locked(database: str, dialect: Dialect) -> tuple[list[str], bool]:
            with Stepper(database, lock_limits(dialect, ["key"])) as one:
                limits = one.finish()
            with Stepper(database, dialect.ask(LOCK_WORKER, "worker", None)) as one:
                return limits, bool(one.finish())

        demand = Demand(worker="worker", slots=1)
        with (
            Stepper(in_schema(url, schema), lock_limits(own, ["key"])) as claimer,
            Stepper(in_schema(url, schema), find_work(own, demand, FIND_WORK_AND_LOCK)) as worker,
        ):
            claimer.step()
            worker.step()
            assert locked(other_url, of_caller) == ([], False)
            assert locked(in_schema(url, schema), own) == ([], False)
            assert locked(other_url, other) == (["key"], True)
        assert locked(other_url, of_caller) == (["key"], True)
        here.enqueue("waiting", after=here.enqueue("blocker", queue="blockers"))
        (blocker,) = here.claim("hand", queues=["blockers"])
        with psycopg.connect(other_url) as caller:
            here.complete(blocker, connection=caller)
        assert [job.type for job in here.claim("hand")] == ["waiting"]

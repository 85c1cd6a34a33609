"""Handlers that each use one method of their context, and the caller's connection."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress

import psycopg
import pymysql

from rowcall import Backoff, Context, ContextTask, Job, Limit, Rowcall, RowcallError
from rowcall.drivers.mysql.connection import options_of
from rowcall.task import AsyncContextTask
from tests.crash.storm import terms
from tests.faults.injection import CallerConnection, CallerFile, CallerMysql

ERRORS = (sqlite3.Error, psycopg.Error, pymysql.MySQLError)
SIGNAL = "go"
METERED = Limit("metered", rate=10, per=60, units=3)


LastSteps = Mapping[str, ContextTask[[], object] | AsyncContextTask[[], object]]
"""The tasks that end a chain, by the methods that they use."""


def declare_handlers(jobs: Rowcall, noted: Callable[[Job], None], url: Callable[[], str]) -> LastSteps:
    """Declare a task for each method of a context that reads or writes."""

    @jobs.task(max_attempts=terms.MAX_ATTEMPTS, retry=Backoff.constant(0))
    def ctx_step(ctx: Context) -> object:
        noted(ctx.job)
        return [ctx.step("first", lambda: 1), ctx.step("second", lambda: 2)]

    @jobs.task(max_attempts=terms.MAX_ATTEMPTS, retry=Backoff.constant(0))
    async def ctx_gather(ctx: Context) -> object:
        noted(ctx.job)

        async def done() -> int:
            return 1

        return await ctx.gather(ctx.step("first", done), ctx.step("second", done))

    @jobs.task(max_attempts=terms.MAX_ATTEMPTS, retry=Backoff.constant(0))
    def ctx_sleep(ctx: Context) -> None:
        noted(ctx.job)
        ctx.sleep(60)

    @jobs.task(max_attempts=terms.MAX_ATTEMPTS, retry=Backoff.constant(0))
    def ctx_wait_for(ctx: Context) -> object:
        noted(ctx.job)
        return ctx.wait_for(SIGNAL, int, timeout=60, prompt="How many?")

    @jobs.task(max_attempts=terms.MAX_ATTEMPTS, retry=Backoff.constant(0))
    def ctx_child(ctx: Context) -> int:
        noted(ctx.job)
        return 1

    @jobs.task(max_attempts=terms.MAX_ATTEMPTS, retry=Backoff.constant(0))
    def ctx_call(ctx: Context) -> object:
        noted(ctx.job)
        return ctx.call(ctx_child.using(queue="call"))

    @jobs.task(max_attempts=terms.MAX_ATTEMPTS, retry=Backoff.constant(0))
    async def ctx_first(ctx: Context) -> object:
        noted(ctx.job)
        return await ctx.first(ctx.call(ctx_child.using(queue="first")), ctx.sleep(60))

    @jobs.task(max_attempts=terms.MAX_ATTEMPTS, retry=Backoff.constant(0))
    def ctx_progress(ctx: Context) -> None:
        noted(ctx.job)
        ctx.progress(0.25, "a quarter")

    @jobs.task(max_attempts=terms.MAX_ATTEMPTS, retry=Backoff.constant(0))
    def ctx_stream(ctx: Context) -> None:
        noted(ctx.job)
        ctx.stream("first")
        ctx.stream("second")

    @jobs.task(max_attempts=terms.MAX_ATTEMPTS, retry=Backoff.constant(0))
    def ctx_log(ctx: Context) -> None:
        noted(ctx.job)
        ctx.log.info("kept")

    @jobs.task(max_attempts=terms.MAX_ATTEMPTS, retry=Backoff.constant(0))
    def ctx_patched(ctx: Context) -> object:
        noted(ctx.job)
        ctx.step("first", lambda: 1)
        return ctx.patched("newer")

    @jobs.task(max_attempts=terms.MAX_ATTEMPTS, retry=Backoff.constant(0), limit=METERED)
    def ctx_used(ctx: Context) -> None:
        noted(ctx.job)
        ctx.used(METERED.name, 5 if ctx.job.attempt == 1 else 1)
        if ctx.job.attempt == 1:
            raise ConnectionError("more was used than reserved")

    @jobs.task(max_attempts=terms.MAX_ATTEMPTS, retry=Backoff.constant(0))
    def ctx_blockers(ctx: Context) -> object:
        noted(ctx.job)
        return ctx.blockers

    @jobs.task(max_attempts=terms.MAX_ATTEMPTS, retry=Backoff.constant(0))
    def ctx_previous(ctx: Context) -> object:
        noted(ctx.job)
        return ctx.previous

    @jobs.task(max_attempts=terms.MAX_ATTEMPTS, retry=Backoff.constant(0))
    async def ctx_ablockers(ctx: Context) -> object:
        noted(ctx.job)
        return await ctx.ablockers()

    @jobs.task(max_attempts=terms.MAX_ATTEMPTS, retry=Backoff.constant(0))
    async def ctx_aprevious(ctx: Context) -> object:
        noted(ctx.job)
        return await ctx.aprevious()

    @jobs.task(max_attempts=terms.MAX_ATTEMPTS, retry=Backoff.constant(0))
    def ctx_batch(ctx: Context) -> None:
        noted(ctx.job)
        assert ctx.batch is None

    @jobs.task(max_attempts=terms.MAX_ATTEMPTS, retry=Backoff.constant(0))
    async def ctx_abatch(ctx: Context) -> None:
        noted(ctx.job)
        assert await ctx.abatch() is None

    @jobs.task(max_attempts=terms.MAX_ATTEMPTS, retry=Backoff.constant(0))
    def ctx_continue_with(ctx: Context) -> None:
        noted(ctx.job)
        ctx.continue_with(ctx_previous)

    @jobs.task(max_attempts=terms.MAX_ATTEMPTS, retry=Backoff.constant(0))
    def ctx_complete(ctx: Context) -> None:
        noted(ctx.job)
        with caller_connection(url()) as connection:
            ctx.complete("done", connection=connection)

    return {"previous": ctx_previous, "aprevious": ctx_aprevious}


@contextmanager
def caller_connection(url: str) -> Iterator[CallerFile | CallerConnection | CallerMysql]:
    """Yield a connection of the app, in a transaction that is committed at the end."""
    connection: CallerFile | CallerConnection | CallerMysql
    if url.startswith("sqlite"):
        connection = sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None, factory=CallerFile)
    elif url.startswith("mysql"):
        connection = CallerMysql(**options_of(url))
    else:
        connection = CallerConnection.connect(url, autocommit=True)
    with closing(connection):
        connection.execute("begin immediate" if url.startswith("sqlite") else "begin")
        try:
            yield connection
        except BaseException:
            with suppress(*ERRORS):  # it may be lost, or rolled back
                connection.execute("rollback")
            raise
        try:
            connection.execute("commit")
        except ERRORS as error:
            raise RowcallError("the app's own commit failed") from error

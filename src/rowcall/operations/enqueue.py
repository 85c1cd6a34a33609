"""Jobs come in: by name here, by function through `rowcall.task`; both end in `put`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Unpack

import msgspec

from rowcall.declare.limits import limited, limits_text, limits_texts
from rowcall.declare.options import ENQUEUE_OPTIONS, EnqueueOptions, Options, checked, new_job
from rowcall.domain.errors import InvalidOption
from rowcall.domain.job import Job
from rowcall.domain.limits import LimitOf
from rowcall.domain.names import name_problem
from rowcall.domain.payload import payload_from_row, untyped_to_json
from rowcall.operations.blobs import on_loan
from rowcall.operations.enqueue_related import written_job
from rowcall.operations.flows import Bound, Flows
from rowcall.store.flows.enqueue import Order
from rowcall.store.jobs.enqueue import Member, enqueue, enqueue_many, enqueue_referring
from rowcall.store.new_job import Inserted, NewJob

_UNDECLARED = Options()


class Enqueueing(Flows):
    def enqueue(
        self, task: str, arguments: Mapping[str, object] | None = None, **options: Unpack[EnqueueOptions]
    ) -> Job:
        """Enqueue by name, from code that does not have the function.

        >>> jobs.enqueue("send_email", {"to": "a@example.com"}, priority=10)  # doctest: +SKIP
        """
        given = checked(options, ENQUEUE_OPTIONS)
        return self.put(*self._named(task, arguments, given), connection=given.connection)

    async def aenqueue(
        self, task: str, arguments: Mapping[str, object] | None = None, **options: Unpack[EnqueueOptions]
    ) -> Job:
        """`enqueue` for async code. Cancelled while it waits, the job may still have been written."""
        given = checked(options, ENQUEUE_OPTIONS)
        return await self.aput(*self._named(task, arguments, given), connection=given.connection)

    def bound(self, task: object, args: tuple[object, ...], arguments: dict[str, object]) -> Bound:
        """A call of a task, of one with options, or of one that is known by its name alone."""
        if isinstance(task, Bound):
            if args or arguments:
                raise InvalidOption("task", "is bound to its arguments already")
            return task
        if isinstance(task, str):
            if args:
                raise InvalidOption("task", f"{task!r} is only a name: give its arguments by name")
            return Bound(*self._named(task, arguments, _UNDECLARED))
        bind = getattr(task, "bind", None)
        if bind is None:
            raise InvalidOption("task", f"wants a task, a task with options or a name, not {task!r}")
        call: Bound = bind(*args, **arguments)
        return call

    def _named(self, task: str, arguments: Mapping[str, object] | None, given: Options) -> tuple[NewJob, str]:
        if problem := name_problem(task):
            raise InvalidOption("name", problem)
        declared = self.tasks.get(task)
        if declared is not None:
            payload = declared.payload_of({} if arguments is None else arguments)
            job = new_job(task, declared.options, given, self.config.default_queue)
            return limited(job, declared.limits_for(given.limits, self.limits)), payload
        job = new_job(task, _UNDECLARED, given, self.config.default_queue)
        self.limits.check(given.limits or ())
        limits = None if given.limits is None else tuple(LimitOf(limit) for limit in given.limits)
        return limited(job, limits), untyped_to_json(task, {} if arguments is None else arguments)

    def put(self, job: NewJob, payload: str, *, connection: object = None) -> Job:
        if self.tracing is None:
            return self._put(job, payload, connection)
        with self.tracing.sending(job) as sending:
            return sending.written(self._put(sending.job, payload, connection))

    def _put(self, job: NewJob, payload: str, connection: object) -> Job:
        if not job.is_alone:
            return self.place([Order(job=job, payload=payload)], connection)[0]
        connection = self.destination(connection)
        shown = payload_from_row(payload)  # before the wait, after which the processor's caches know none of this
        member = Member(job, payload, self.now_ms(), limits_text(job, shown))
        if len(payload) > self.blobs.inline_length:
            return written_job(job, shown, self._put_large(member, connection))
        if connection is None:
            self.ensure_schema()
            return written_job(job, shown, self.database.write_shared(member))
        loan, dialect = self.lend(connection)
        return written_job(job, shown, loan.run(enqueue(dialect, member)))

    async def aput(self, job: NewJob, payload: str, *, connection: object = None) -> Job:
        if self.tracing is None:
            return await self._aput(job, payload, connection)
        with self.tracing.sending(job) as sending:
            return sending.written(await self._aput(sending.job, payload, connection))

    async def _aput(self, job: NewJob, payload: str, connection: object) -> Job:
        if not job.is_alone:
            return (await self.aplace([Order(job=job, payload=payload)], connection))[0]
        connection = self.destination(connection)
        shown = payload_from_row(payload)
        member = Member(job, payload, self.now_ms(), limits_text(job, shown))
        if len(payload) > self.blobs.inline_length:
            return written_job(job, shown, await self._aput_large(member, connection))
        if connection is None:
            await self.aensure_schema()
            return written_job(job, shown, await self.database.awrite_shared(member))
        loan, dialect = await self.alend(connection)
        return written_job(job, shown, await loan.arun(enqueue(dialect, member)))

    def put_many(self, job: NewJob, payloads: Sequence[str], *, connection: object = None) -> list[Job]:
        if self.tracing is None or not payloads:
            return self._put_many(job, payloads, connection)
        with self.tracing.sending(job, len(payloads)) as sending:
            return self._put_many(sending.job, payloads, connection)

    def _put_many(self, job: NewJob, payloads: Sequence[str], connection: object) -> list[Job]:
        if not job.is_alone:
            return self.place([Order(job=job, payload=payload) for payload in payloads], connection)
        connection = self.destination(connection)
        now_ms = self.now_ms()
        large, limits = self.blobs.any_large(payloads), limits_texts(job, payloads)
        if connection is None:
            self.ensure_schema()
            stored = self.blobs.all_stored(job.type, payloads) if large else payloads
            inserted = self.database.write(
                lambda: enqueue_many(self.dialect, job, stored, now_ms, referring=large, limits=limits)
            )
        else:
            loan, dialect = self.lend(connection)
            stored = self.blobs.all_stored(job.type, payloads) if large else payloads
            plan = enqueue_many(dialect, job, stored, now_ms, referring=large, limits=limits)
            inserted = loan.run(on_loan(dialect, stored, plan) if large else plan)
        return _jobs(job, payloads, inserted)

    async def aput_many(self, job: NewJob, payloads: Sequence[str], *, connection: object = None) -> list[Job]:
        if self.tracing is None or not payloads:
            return await self._aput_many(job, payloads, connection)
        with self.tracing.sending(job, len(payloads)) as sending:
            return await self._aput_many(sending.job, payloads, connection)

    async def _aput_many(self, job: NewJob, payloads: Sequence[str], connection: object) -> list[Job]:
        if not job.is_alone:
            return await self.aplace([Order(job=job, payload=payload) for payload in payloads], connection)
        connection = self.destination(connection)
        now_ms = self.now_ms()
        large, limits = self.blobs.any_large(payloads), limits_texts(job, payloads)
        if connection is None:
            await self.aensure_schema()
            stored = await self.blobs.aall_stored(job.type, payloads) if large else payloads
            inserted = await self.database.awrite(
                lambda: enqueue_many(self.dialect, job, stored, now_ms, referring=large, limits=limits)
            )
        else:
            loan, dialect = await self.alend(connection)
            stored = await self.blobs.aall_stored(job.type, payloads) if large else payloads
            plan = enqueue_many(dialect, job, stored, now_ms, referring=large, limits=limits)
            inserted = await loan.arun(on_loan(dialect, stored, plan) if large else plan)
        return _jobs(job, payloads, inserted)

    def _put_large(self, member: Member, connection: object) -> Inserted:
        """In a commit of its own, if it is large enough to be put elsewhere: that takes two statements."""
        if connection is not None:
            loan, dialect = self.lend(connection)
            stored = member._replace(payload=self.blobs.stored(member.job.type, member.payload))
            return loan.run(on_loan(dialect, [stored.payload], enqueue_referring(dialect, stored)))
        self.ensure_schema()
        stored = member._replace(payload=self.blobs.stored(member.job.type, member.payload))
        if stored.payload is member.payload:
            return self.database.write_shared(member)
        return self.database.write(lambda: enqueue_referring(self.dialect, stored))

    async def _aput_large(self, member: Member, connection: object) -> Inserted:
        if connection is not None:
            loan, dialect = await self.alend(connection)
            stored = member._replace(payload=await self.blobs.astored(member.job.type, member.payload))
            return await loan.arun(on_loan(dialect, [stored.payload], enqueue_referring(dialect, stored)))
        await self.aensure_schema()
        stored = member._replace(payload=await self.blobs.astored(member.job.type, member.payload))
        if stored.payload is member.payload:
            return await self.database.awrite_shared(member)
        return await self.database.awrite(lambda: enqueue_referring(self.dialect, stored))


def _jobs(job: NewJob, payloads: Sequence[str], inserted: Sequence[Inserted]) -> list[Job]:
    if not inserted:
        return []
    first = written_job(job, payload_from_row(payloads[0]), inserted[0])  # all of one call share their times
    rest = [
        msgspec.structs.replace(first, id=row.id, payload=payload_from_row(payload))
        for row, payload in zip(inserted[1:], payloads[1:], strict=True)
    ]
    return [first, *rest]

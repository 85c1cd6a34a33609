"""Spans as OpenTelemetry's own SDK records them."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from opentelemetry import trace
from opentelemetry.context import Context as OtelContext
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from rowcall import Backoff, Cancel, Context, InvalidOption, Rowcall
from rowcall.app import queue_of
from rowcall.testing.process import PythonProcess
from tests.support import eventually

_exporter = InMemorySpanExporter()

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

WITHOUT_SDK = """
import sqlite3
from rowcall import Rowcall
with Rowcall("sqlite:///queue.db", tracing=True) as jobs:
    done = []
    jobs.task(name="work")(lambda: done.append(1))
    jobs.enqueue("work")
    assert jobs.drain().succeeded == 1 and done == [1]
    assert sqlite3.connect("queue.db").execute("select trace_context from rowcall_job").fetchall() == [(None,)]
"""


class BreaksAtStart(SpanProcessor):
    is_broken = True

    def on_start(self, span: Span, parent_context: OtelContext | None = None) -> None:
        if self.is_broken:
            raise ValueError("at the start")


class BreaksAtEnd(SpanProcessor):
    is_broken = True

    def on_end(self, span: ReadableSpan) -> None:
        if self.is_broken:
            raise ValueError("at the end")


@pytest.fixture(scope="module", autouse=True)
def provider() -> None:
    """A process has one for good: ours, or the one that a page of the documentation has set."""
    if not isinstance(trace.get_tracer_provider(), TracerProvider):
        trace.set_tracer_provider(TracerProvider())
    made = trace.get_tracer_provider()
    assert isinstance(made, TracerProvider)
    made.add_span_processor(SimpleSpanProcessor(_exporter))


@pytest.fixture
def spans() -> Iterator[InMemorySpanExporter]:
    _exporter.clear()
    yield _exporter
    _exporter.clear()


@pytest.fixture(params=["sqlite", "postgres"])
def jobs(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Rowcall]:
    url = request.getfixturevalue("postgres_url") if request.param == "postgres" else tmp_path / "queue.db"
    with Rowcall(url, tracing=True) as jobs:
        yield jobs


@pytest.fixture
def local(tmp_path: Path) -> Iterator[Rowcall]:
    with Rowcall(tmp_path / "queue.db", tracing=True) as jobs:
        yield jobs


def named(spans: InMemorySpanExporter, name: str) -> list[ReadableSpan]:
    return [span for span in spans.get_finished_spans() if span.name == name]


def only(spans: InMemorySpanExporter, name: str) -> ReadableSpan:
    [span] = named(spans, name)
    return span


def id_of(span: ReadableSpan) -> tuple[int, int]:
    found = span.get_span_context()
    assert found is not None
    return found.trace_id, found.span_id


def parent_of(span: ReadableSpan) -> tuple[int, int] | None:
    return None if span.parent is None else (span.parent.trace_id, span.parent.span_id)


def execute(jobs: Rowcall, sql: str) -> list[tuple[object, ...]]:
    """As plain SQL, on whichever database it is."""
    config = queue_of(jobs).config
    if config.server is None:
        with closing(sqlite3.connect(config.path)) as connection, connection:
            return connection.execute(sql).fetchall()
    with psycopg.connect(config.server.url, autocommit=True) as server:
        found = server.execute(sql)
        return found.fetchall() if found.description else []


def test_an_attempt_belongs_to_the_trace_of_its_sender(jobs: Rowcall, spans: InMemorySpanExporter) -> None:
    @jobs.task(queue="mail")
    def send_email(to: str) -> None: ...

    with trace.get_tracer("test").start_as_current_span("request"):
        job = send_email.enqueue("a@example.com")
    jobs.drain()
    request, sent, processed = only(spans, "request"), only(spans, "send send_email"), only(spans, "process send_email")
    assert (parent_of(sent), parent_of(processed)) == (id_of(request), id_of(sent))
    assert [(link.context.trace_id, link.context.span_id) for link in processed.links] == [id_of(sent)]
    assert (sent.kind, processed.kind) == (SpanKind.PRODUCER, SpanKind.CONSUMER)
    both = {"messaging.system": "rowcall", "messaging.destination.name": "mail", "messaging.message.id": str(job.id)}
    assert dict(sent.attributes or {}) == {
        **both,
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "rowcall.task": "send_email",
    }
    assert dict(processed.attributes or {}) == {
        **both,
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.client.id": jobs.get(job.id).worker,
        "rowcall.task": "send_email",
        "rowcall.attempt": 1,
        "rowcall.max_attempts": 5,
        "rowcall.outcome": "succeeded",
    }
    assert processed.status.status_code is StatusCode.UNSET


def test_retries_stay_in_the_trace_and_say_what_went_wrong(jobs: Rowcall, spans: InMemorySpanExporter) -> None:
    @jobs.task(max_attempts=2, retry=Backoff.constant(0))
    async def flaky(ctx: Context) -> None:
        if ctx.job.attempt == 1:
            raise ValueError("not yet")

    flaky.enqueue()
    jobs.drain()
    sent = only(spans, "send flaky")
    first, second = named(spans, "process flaky")
    assert parent_of(first) == parent_of(second) == id_of(sent)
    assert (first.status.status_code, first.status.description) == (StatusCode.ERROR, "not yet")
    assert first.attributes is not None
    assert second.attributes is not None
    assert (first.attributes["error.type"], first.attributes["rowcall.outcome"]) == ("INTERNAL:ValueError", "retried")
    [event] = first.events
    assert event.attributes is not None
    assert (event.name, event.attributes["exception.message"]) == ("exception", "not yet")
    assert "in flaky" in str(event.attributes["exception.stacktrace"])
    assert (second.attributes["rowcall.attempt"], second.status.status_code) == (2, StatusCode.UNSET)


def test_what_the_app_scrubs_is_in_no_span(tmp_path: Path, spans: InMemorySpanExporter) -> None:
    with Rowcall(tmp_path / "queue.db", tracing=True, scrub=lambda text: text.replace("hunter2", "***")) as jobs:

        @jobs.task(max_attempts=1)
        def log_in() -> None:
            raise ValueError("wrong password hunter2")

        log_in.enqueue()
        jobs.drain()
    span = only(spans, "process log_in")
    assert span.status.description == "wrong password ***"
    assert "hunter2" not in str([event.attributes for event in span.events])


def test_many_at_once_have_one_sender(jobs: Rowcall, spans: InMemorySpanExporter) -> None:
    @jobs.task
    def count(number: int) -> None: ...

    count.enqueue_many({"number": number} for number in range(3))
    asyncio.run(count.aenqueue_many([{"number": 3}]))
    assert count.enqueue_many([]) == []
    first, second = named(spans, "send count")
    assert first.attributes is not None
    assert first.attributes["messaging.batch.message_count"] == 3
    assert "messaging.message.id" not in first.attributes
    jobs.drain()
    assert [parent_of(span) for span in named(spans, "process count")].count(id_of(first)) == 3
    assert [parent_of(span) for span in named(spans, "process count")].count(id_of(second)) == 1


def test_an_enqueue_that_finds_a_duplicate_says_so(jobs: Rowcall, spans: InMemorySpanExporter) -> None:
    @jobs.task
    def charge(order: int) -> None: ...

    keyed = charge.using(key=lambda order: str(order))
    keyed.enqueue(1)
    keyed.enqueue(1)
    keyed.enqueue_many([{"order": 2}])
    keyed.enqueue_many([{"order": 1}, {"order": 3}])
    charge.enqueue_many([keyed.bind(3), charge.bind(3)])
    found = [dict(span.attributes or {}) for span in named(spans, "send charge")]
    assert [one.get("rowcall.duplicate") for one in found] == [None, True, None, True, True]
    assert [one.get("messaging.batch.message_count") for one in found] == [None, None, None, 2, 2]


def test_an_attempt_is_linked_with_the_traces_of_its_blockers(jobs: Rowcall, spans: InMemorySpanExporter) -> None:
    @jobs.task
    def part(number: int) -> None: ...

    @jobs.task
    def total() -> None: ...

    @jobs.task
    def fan_out(ctx: Context) -> None:
        ctx.continue_with(total.using(after=[part.enqueue(3)]))

    total.using(after=[part.enqueue(1), *part.enqueue_many([{"number": 2}, {"number": 2}])]).enqueue()
    fan_out.enqueue()
    jobs.drain()
    sent, counted = named(spans, "send part"), named(spans, "process total")

    def links(span: ReadableSpan) -> list[tuple[int, int]]:
        return [(link.context.trace_id, link.context.span_id) for link in span.links]

    assert links(counted[0]) == [id_of(only(spans, "send total")), id_of(sent[0]), id_of(sent[1])]
    assert links(counted[1]) == [id_of(only(spans, "process fan_out")), id_of(sent[2])]
    assert parent_of(counted[0]) == id_of(only(spans, "send total"))


def test_the_span_is_current_in_a_handler_and_what_it_sends_continues_from_there(
    jobs: Rowcall, spans: InMemorySpanExporter
) -> None:
    seen: dict[str, str | None] = {}

    @jobs.task
    def last() -> None:
        tracing = queue_of(jobs).declared.tracing
        seen["last"] = tracing.carried() if tracing is not None else None

    @jobs.task
    def middle() -> None:
        last.enqueue()

    @jobs.task
    async def first() -> None:
        await asyncio.sleep(0)
        await middle.aenqueue()

    first.enqueue()
    jobs.drain()
    chain = [f"{step} {task}" for task in ("first", "middle", "last") for step in ("send", "process")]
    found = [only(spans, name) for name in chain]
    assert [parent_of(span) for span in found] == [None, *map(id_of, found[:-1])]
    trace_id, span_id = id_of(found[-1])
    assert str(seen["last"]).startswith(f"00-{trace_id:032x}-{span_id:016x}-0")


def test_runs_that_follow_each_other_share_nothing(local: Rowcall, spans: InMemorySpanExporter) -> None:
    @local.task
    async def on_the_loop() -> None: ...

    @local.task
    def in_a_thread() -> None: ...

    for _ in range(20):
        on_the_loop.enqueue()
        in_a_thread.enqueue()
    local.drain(concurrency=1)
    for name in ("on_the_loop", "in_a_thread"):
        sent = {id_of(span) for span in named(spans, f"send {name}")}
        assert len(sent) == 20
        assert {parent_of(span) for span in named(spans, f"process {name}")} == sent


def test_other_languages_write_the_headers_and_nonsense_is_no_parent(
    jobs: Rowcall, spans: InMemorySpanExporter
) -> None:
    @jobs.task
    def work() -> None:
        jobs.enqueue("elsewhere")

    jobs.migrate()
    execute(jobs, f"insert into rowcall_job (type, trace_context) values ('work', '{PARENT} vendor=a b,other=2')")
    execute(jobs, "insert into rowcall_job (type, trace_context) values ('work', 'nonsense')")
    jobs.drain()
    with_parent, alone = sorted(named(spans, "process work"), key=lambda span: span.parent is None)
    assert parent_of(with_parent) == (0x0AF7651916CD43DD8448EB211C80319C, 0xB7AD6B7169203331)
    assert (alone.parent, alone.links) == (None, ())
    kept = [str(row[0]) for row in execute(jobs, "select trace_context from rowcall_job where type = 'elsewhere'")]
    assert sum(text.endswith(" vendor=a b,other=2") for text in kept) == 1
    assert all(text.startswith("00-") for text in kept)


def test_a_handler_past_its_time_out_ends_its_span_once(
    local: Rowcall, spans: InMemorySpanExporter, caplog: pytest.LogCaptureFixture
) -> None:
    gate, ended = threading.Event(), threading.Event()

    @local.task(timeout=0.01, max_attempts=1)
    def slow() -> None:
        gate.wait()

    job = slow.enqueue()
    with caplog.at_level(logging.WARNING), local.worker(concurrency=2):
        eventually(lambda: local.get(job.id).status == "failed")
        [span] = eventually(lambda: named(spans, "process slow"))
        gate.set()
        local.task(name="after")(ended.set)
        local.enqueue("after")
        ended.wait()
    assert span.attributes is not None
    assert (span.attributes["error.type"], span.status.status_code) == ("TIMEOUT:HANDLER", StatusCode.ERROR)
    assert [record.name for record in caplog.records if record.name.startswith("opentelemetry")] == []


def test_an_intended_end_is_not_an_error(local: Rowcall, spans: InMemorySpanExporter) -> None:
    @local.task
    def cancel() -> None:
        raise Cancel("no longer needed")

    @local.task
    def complete(ctx: Context) -> None:
        with closing(sqlite3.connect(queue_of(local).config.path)) as connection, connection:
            ctx.complete({"done": True}, connection=connection)

    cancel.enqueue()
    complete.enqueue()
    local.drain()
    for name in ("process cancel", "process complete"):
        span = only(spans, name)
        assert span.status.status_code is StatusCode.UNSET
        assert "error.type" not in (span.attributes or {})


def test_a_processor_of_the_apps_that_breaks_harms_no_job(local: Rowcall, caplog: pytest.LogCaptureFixture) -> None:
    @local.task
    def in_a_thread() -> None: ...

    @local.task
    async def on_the_loop() -> None: ...

    made = trace.get_tracer_provider()
    assert isinstance(made, TracerProvider)
    for processor in (BreaksAtStart(), BreaksAtEnd()):
        made.add_span_processor(processor)
        try:
            for _ in range(3):
                in_a_thread.enqueue()
                on_the_loop.enqueue()
            assert local.drain(concurrency=1).succeeded == 6
        finally:
            processor.is_broken = False
    assert {record.getMessage() for record in caplog.records} == {"could not start or end a span"}


def test_an_enqueue_that_fails_is_an_error_of_the_sender(local: Rowcall, spans: InMemorySpanExporter) -> None:
    @local.task
    def work() -> None: ...

    with pytest.raises(InvalidOption):
        work.using(connection="none").enqueue()
    span = only(spans, "send work")
    assert span.status.status_code is StatusCode.ERROR
    assert span.attributes is not None
    assert span.attributes["error.type"] == "InvalidOption"


def test_a_callers_connection_carries_the_trace(local: Rowcall, spans: InMemorySpanExporter) -> None:
    @local.task
    def work() -> None: ...

    local.migrate()
    with closing(sqlite3.connect(queue_of(local).config.path)) as connection, connection:
        work.using(connection=connection).enqueue()
    local.drain()
    assert parent_of(only(spans, "process work")) == id_of(only(spans, "send work"))


def test_records_of_the_log_name_the_span(
    local: Rowcall, spans: InMemorySpanExporter, caplog: pytest.LogCaptureFixture
) -> None:
    @local.task(max_attempts=1)
    def work(ctx: Context) -> None:
        ctx.log.warning("here")
        raise ValueError

    work.enqueue()
    local.drain()
    trace_id, span_id = id_of(only(spans, "process work"))
    assert {vars(record)["trace_id"] for record in caplog.records} == {f"{trace_id:032x}"}
    assert {vars(record)["span_id"] for record in caplog.records} == {f"{span_id:016x}"}
    assert len(caplog.records) == 2


def test_it_is_off_unless_asked_for(tmp_path: Path, spans: InMemorySpanExporter) -> None:
    with Rowcall(tmp_path / "queue.db") as jobs, trace.get_tracer("test").start_as_current_span("request"):
        jobs.task(name="work")(lambda: None)
        jobs.enqueue("work")
        jobs.drain()
        assert execute(jobs, "select trace_context from rowcall_job") == [(None,)]
    assert [span.name for span in spans.get_finished_spans()] == ["request"]


def test_without_a_provider_it_does_nothing(tmp_path: Path) -> None:
    with PythonProcess("-c", WITHOUT_SDK, cwd=str(tmp_path)) as process:
        assert process.wait() == 0, process.output

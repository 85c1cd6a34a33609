"""The log has a line for the start and the end of each attempt, with the job's fields and the exception."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import logging
import os
import re
import select
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from rowcall import Backoff, Cancel, JsonLogFormatter, Rowcall, Snooze
from rowcall.app import queue_of
from rowcall.base.clock import SystemClock
from rowcall.cli.present.log import set_up
from rowcall.observe.logs import GroupHandler, group_handler
from rowcall.worker.settings import LogJobs, settings
from rowcall.worker.worker import Worker
from tests.support import eventually
from tests.worker import isolated
from tests.worker.isolation.support import enqueue
from tests.worker.support import Site


class Declined(Exception):
    def __init__(self, card: str, reason: str) -> None:
        self.card, self.reason = card, reason

    def __str__(self) -> str:
        return f"{self.card}: {self.reason}"


class LeapingTimer(SystemClock):
    """Durations that are measured across a change of `ahead` grow by that many seconds."""

    ahead = 0.0

    def timer(self) -> float:
        return super().timer() + self.ahead


def drain(jobs: Rowcall, log_jobs: LogJobs) -> None:
    Worker(queue_of(jobs), settings(concurrency=1, log_jobs=log_jobs)).drain()


def told(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    return [(record.levelname, record.getMessage()) for record in caplog.records]


def failures(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [record for record in caplog.records if record.levelno >= logging.WARNING]


def as_json(record: logging.LogRecord) -> dict[str, object]:
    found: dict[str, object] = json.loads(JsonLogFormatter().format(record))
    return found


def declare(jobs: Rowcall) -> list[Callable[..., object]]:
    @jobs.task(retry=Backoff.constant(0), max_attempts=2)
    def break_down() -> None:
        raise LookupError("no needle")

    @jobs.task
    def give_up() -> None:
        raise Cancel("not today")

    @jobs.task
    async def later() -> None:
        raise Snooze(600)

    @jobs.task
    def succeed() -> int:
        return 1

    return [break_down.enqueue, give_up.enqueue, later.enqueue, succeed.enqueue]


def test_an_error_that_is_not_retried_says_so(jobs: Rowcall, caplog: pytest.LogCaptureFixture) -> None:
    @jobs.task(retry=Backoff.constant(0, give_up_on=LookupError))
    def break_down() -> None:
        raise LookupError("no needle")

    break_down.enqueue()
    drain(jobs, "all")
    said = "attempt 1 failed for good: its error is not retried (INTERNAL:LookupError: no needle)"
    assert told(caplog) == [("ERROR", f"job 1 (break_down): {said}")]


def test_each_attempt_has_a_line_for_its_start_and_its_end(jobs: Rowcall, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger="rowcall")
    for add in declare(jobs):
        add()
    drain(jobs, "all")
    succeeded = [record for record in caplog.records if "succeeded" in record.getMessage()]
    assert [record.getMessage().partition(" in ")[0] for record in succeeded] == [
        "job 4 (succeed): attempt 1 of 5 succeeded"
    ]
    assert isinstance(as_json(succeeded[0])["duration_ms"], int)
    rest = [line for line in told(caplog) if "succeeded" not in line[1]]
    assert sorted(rest) == [
        ("DEBUG", "job 1 (break_down): attempt 1 of 2 started"),
        ("DEBUG", "job 1 (break_down): attempt 2 of 2 started"),
        ("DEBUG", "job 2 (give_up): attempt 1 of 5 started"),
        ("DEBUG", "job 3 (later): attempt 1 of 5 started"),
        ("DEBUG", "job 4 (succeed): attempt 1 of 5 started"),
        ("ERROR", "job 1 (break_down): attempt 2 of 2 failed for good (INTERNAL:LookupError: no needle)"),
        ("INFO", "job 2 (give_up): was cancelled by its handler (CANCELLED:BY_HANDLER: not today)"),
        ("INFO", "job 3 (later): attempt 1 of 5 snoozed, the next one comes in 10 min"),
        (
            "WARNING",
            "job 1 (break_down): attempt 1 of 2 failed, the next one comes at once (INTERNAL:LookupError: no needle)",
        ),
    ]
    fields = as_json(next(record for record in caplog.records if record.levelname == "ERROR"))
    assert {name: fields[name] for name in ("job_id", "job_type", "job_attempt", "error_code", "exception")} == {
        "job_id": 1,
        "job_type": "break_down",
        "job_attempt": 2,
        "error_code": "INTERNAL:LookupError",
        "exception": "LookupError",
    }


def test_only_failures_and_cancellations_on_request(jobs: Rowcall, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger="rowcall")
    for add in declare(jobs):
        add()
    drain(jobs, "failures")
    assert sorted(record.levelname for record in caplog.records) == ["ERROR", "INFO", "WARNING"]


def test_records_of_one_failure_differ_in_their_arguments_alone(
    jobs: Rowcall, caplog: pytest.LogCaptureFixture
) -> None:
    @jobs.task(max_attempts=1)
    def charge(card: str) -> None:
        raise Declined(card, "no money")

    for card in ("4711", "4712"):
        charge.enqueue(card)
    jobs.drain()
    one, other = failures(caplog)
    assert one.msg == other.msg
    assert one.getMessage() != other.getMessage()
    assert one.exc_info is not None
    assert one.exc_info[0] is not None
    assert issubclass(one.exc_info[0], Declined)
    assert str(one.exc_info[1]) in ("4711: no money", "4712: no money")


@pytest.mark.parametrize("lane", ["thread", "loop"])
def test_a_traceback_starts_at_the_handler(jobs: Rowcall, caplog: pytest.LogCaptureFixture, lane: str) -> None:
    def parse(text: str) -> int:
        return int(text)

    def fails() -> None:
        try:
            parse("x")
        except ValueError as error:
            raise LookupError("no number") from error

    async def fails_async() -> None:
        await asyncio.sleep(0)
        fails()

    job = jobs.task(max_attempts=1)(fails if lane == "thread" else fails_async).enqueue()
    jobs.drain()
    (record,) = failures(caplog)
    assert record.exc_info is not None
    first = fails if lane == "thread" else fails_async
    trace = record.exc_info[2]
    assert trace is not None
    assert trace.tb_frame.f_code.co_name == first.__name__
    assert trace.tb_frame.f_globals["__name__"] == __name__
    stored = jobs.attempts(job.id)[0].traceback
    assert stored is not None
    logged = str(as_json(record)["traceback"])
    assert [line for line in logged.splitlines() if line.lstrip().startswith("File")] == [
        line for line in stored.splitlines() if line.lstrip().startswith("File")
    ]
    assert "rowcall" not in stored.partition("Traceback")[2].partition("File")[2].partition(",")[0].rpartition("/")[2]
    assert "The above exception was the direct cause" in logged
    assert logged.splitlines()[-1] == "LookupError: no number"


def test_the_log_keeps_no_variable_of_a_handler(jobs: Rowcall, caplog: pytest.LogCaptureFixture) -> None:
    class Held: ...

    alive: list[weakref.ref[Held]] = []

    @jobs.task(max_attempts=1)
    def fails() -> None:
        held = Held()
        alive.append(weakref.ref(held))
        raise LookupError("no needle")

    fails.enqueue()
    jobs.drain()
    assert len(failures(caplog)) == 1
    assert [one() for one in alive] == [None]


def test_scrubbed_and_unkept_tracebacks(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    def fails() -> None:
        try:
            raise ValueError("password is sesame")
        except ValueError:
            raise Declined("sesame", "no money") from None

    for options in ({"scrub": lambda text: text.replace("sesame", "***")}, {"traceback_limit": 0}):
        with Rowcall(site.database, **options) as jobs:
            jobs.task(max_attempts=1)(fails)
            jobs.enqueue("fails")
            jobs.drain()
    scrubbed, unkept = failures(caplog)
    assert "***: no money" in str(as_json(scrubbed)["traceback"])
    assert "sesame" not in json.dumps(as_json(scrubbed)).replace('Declined(\\"sesame\\"', "")
    assert unkept.exc_info is None


def test_a_timeout_names_the_line_that_waited(jobs: Rowcall, caplog: pytest.LogCaptureFixture) -> None:
    @jobs.task(max_attempts=1, timeout=0.01)
    async def waits() -> None:
        await asyncio.Event().wait()

    waits.enqueue()
    jobs.drain()
    (record,) = failures(caplog)
    logged = str(as_json(record)["traceback"])
    assert "in waits" in logged
    assert logged.splitlines()[-1] == "TimeoutError: the handler ran for more than 0.01 s"


def test_a_timeout_of_a_thread_names_the_line_that_it_has_reached(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock, began, go_on = LeapingTimer(), threading.Event(), threading.Event()
    with Rowcall(tmp_path / "queue.db", clock=clock) as jobs:

        @jobs.task(max_attempts=1, timeout=60)
        def waits() -> None:
            began.set()
            go_on.wait()

        with jobs.worker():
            job = waits.enqueue()
            began.wait()
            clock.ahead = 61
            jobs.enqueue("unknown")  # wakes the loop, which would wait for 60 real seconds
            eventually(lambda: jobs.get(job).status == "failed")
            go_on.set()
    record = next(record for record in caplog.records if record.levelname == "ERROR")
    logged = str(as_json(record)["traceback"])
    assert logged.splitlines()[1].endswith(", in waits")
    assert logged.splitlines()[-1] == "TimeoutError: the handler ran for more than 60 s"


def test_an_exception_of_a_child_process(jobs: Rowcall, caplog: pytest.LogCaptureFixture) -> None:
    enqueue(jobs, isolated.end_as, way="busy")
    jobs.drain()
    (record,) = failures(caplog)
    assert record.exc_info is not None
    trace = record.exc_info[2]
    assert trace is not None
    assert (trace.tb_frame.f_code.co_name, trace.tb_frame.f_code.co_filename) == ("end_as", isolated.__file__)
    stored = jobs.attempts(1)[0].traceback or ""
    assert "child.py" not in stored


class Written(io.StringIO):
    def __init__(self) -> None:
        super().__init__()
        self.writes: list[str] = []

    def write(self, text: str) -> int:
        self.writes.append(text)
        return len(text)


@contextlib.contextmanager
def standard_error(form: str = "text") -> Iterator[Written]:
    """What goes there where `rowcall work` alone has set up the log."""
    with pytest.MonkeyPatch.context() as patch:
        stream = Written()
        patch.setattr(sys, "stderr", stream)
        patch.setattr(logging.root, "handlers", [])
        patch.setattr(logging.root, "level", logging.root.level)
        patch.setattr(threading, "excepthook", threading.excepthook)
        set_up("info", form)
        yield stream
        logging.captureWarnings(False)


class Keep(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


@pytest.mark.parametrize("form", ["text", "json"])
def test_lines_of_a_group_are_one_write_and_read_as_if_each_was_formatted(jobs: Rowcall, form: str) -> None:
    task = jobs.task(name="odd \U0001f600 (name", queue="mail")(lambda: None)
    task.enqueue_many([{}] * 50)
    with standard_error(form) as stream:
        drain(jobs, "all")
        grouped = [text for text in stream.writes if "succeeded" in text]
        stream.writes.clear()
        (ours,) = logging.root.handlers
        logging.root.addHandler(kept := Keep())  # a handler of the app gets each record, and then ours does, too
        task.enqueue_many([{}] * 50)
        drain(jobs, "all")
        single = [text for text in stream.writes if "succeeded" in text]
        records = [record for record in kept.records if "succeeded" in record.getMessage()]
        assert [f"{ours.format(record)}\n" for record in records] == single
    lines = "".join(grouped).splitlines(keepends=True)
    assert len(grouped) < len(lines) == len(single) == 50
    assert sorted(map(plain, lines)) == sorted(plain(line, minus=50) for line in single)


def plain(line: str, minus: int = 0) -> str:
    """Return a line without its times and the worker's random name; with another id."""
    line = re.sub(r"\d{4}-\d\d-\d\d.\d\d:\d\d:\d\d\.\d{3}Z|in <?\d+ ms|\"duration_ms\": \d+", "", line)
    line = re.sub(r"\"worker\": \"[^\"]*\"", "", line)
    return re.sub(r"(job |\"job_id\": )(\d+)", lambda found: f"{found[1]}{int(found[2]) - minus}", line)


def test_lines_go_to_a_pipe_in_parts_that_other_processes_cannot_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    with open(reading, encoding="utf-8"), open(writing, "w", encoding="utf-8") as writer:
        monkeypatch.setattr(sys, "stderr", writer)
        handler = GroupHandler()
    stream = handler.stream = Written()
    lines = [f"{number} {'ü' * 100}" for number in range(200)]
    handler.write_lines(lines)
    assert "".join(stream.writes) == "\n".join([*lines, ""])
    assert all(len(text.encode()) <= select.PIPE_BUF and text.endswith("\n") for text in stream.writes)
    assert len(stream.writes) < 20


def test_a_log_that_cannot_be_written_ends_no_worker(jobs: Rowcall, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(text: str) -> int:
        raise BrokenPipeError(text)

    jobs.task(name="quick")(lambda: None)
    jobs.enqueue("quick")
    with standard_error() as stream:
        monkeypatch.setattr(stream, "write", refuse)
        drain(jobs, "all")
    assert jobs.stats().by_status["succeeded"] == 1


@pytest.mark.parametrize("seen_by", ["filter", "factory", "patch", "level"])
def test_no_group_is_written_past_what_looks_at_each_record(monkeypatch: pytest.MonkeyPatch, seen_by: str) -> None:
    logger = logging.getLogger("rowcall")
    with standard_error():
        (ours,) = logging.root.handlers
        assert group_handler(logger) is ours
        match seen_by:
            case "filter":
                monkeypatch.setattr(logger, "filters", [logging.Filter()])
            case "factory":
                monkeypatch.setattr(logging, "_logRecordFactory", partial(logging.LogRecord))
            case "patch":
                monkeypatch.setattr(logging.Logger, "callHandlers", lambda self, record: None)
            case "level":
                ours.setLevel(logging.WARNING)
        assert group_handler(logger) is None
        monkeypatch.undo()

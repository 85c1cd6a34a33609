"""Texts of jobs that would forge a line of the log, or control the terminal of a person who reads them."""

from __future__ import annotations

import io
import logging
import re
import sys
from collections.abc import Iterator

import pytest

from rowcall import Context, Fail, Rowcall
from rowcall.cli.present.log import JobFormatter
from rowcall.observe.logs import JobLogFilter
from tests.cli.conftest import Run

HOSTILE = "red \x1b[31m\x9b31m\x07\r\n2026-01-01 00:00:00.000Z INFO     [1] forged\x85\u2028\u202e\x7f"
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
LINE = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}Z [A-Z]+ +\[\d+\] |    ")


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    stream = io.StringIO()
    handler, root = logging.StreamHandler(stream), logging.getLogger()
    handler.setFormatter(JobFormatter())
    handler.addFilter(JobLogFilter())
    before = root.level
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    yield stream
    root.removeHandler(handler)
    root.setLevel(before)


def declare(jobs: Rowcall) -> None:
    @jobs.task(name=HOSTILE, max_attempts=2)
    def fails(ctx: Context, text: str) -> None:
        ctx.progress(0.5, text)
        ctx.log.info("it says %s", text)
        raise ValueError(text)

    @jobs.task
    def refuses(text: str) -> None:
        raise Fail("A:B", text)

    @jobs.task
    def returns(text: str) -> str:
        return text


def test_no_text_of_a_job_forges_a_line_of_the_log(queue: Rowcall, log: io.StringIO) -> None:
    declare(queue)
    for task in (HOSTILE, "refuses", "returns"):
        queue.enqueue(task, {"text": HOSTILE}, queue=HOSTILE)
    queue.drain()
    queue.pause(HOSTILE, actor=HOSTILE)
    try:
        raise LookupError(HOSTILE)
    except LookupError:
        logging.getLogger("app").exception("failed: %s", HOSTILE)
    said = log.getvalue()
    assert "it says red \\x1b[31m" in said
    assert "Traceback (most recent call last)" in said
    assert CONTROL.findall(said) == []
    assert [line for line in said.splitlines() if not LINE.match(line) or " [1] forged" in line[:45]] == []


def test_the_lines_about_attempts_are_whole_in_any_format(queue: Rowcall, caplog: pytest.LogCaptureFixture) -> None:
    declare(queue)
    queue.enqueue(HOSTILE, {"text": HOSTILE})
    queue.enqueue("refuses", {"text": HOSTILE})
    queue.drain()
    said = [record.getMessage() for record in caplog.records if "attempt 1" in record.getMessage()]
    assert len(said) == 2
    assert [line for line in said if "\n" in line or CONTROL.search(line)] == []


COMMANDS = [
    "jobs",
    "show 1",
    "show 2",
    "show 3",
    "show 4",
    "why 1",
    "why 4",
    "stats",
    "stuck",
    "errors",
    "retries",
    "workers",
    "doctor",
]


@pytest.mark.parametrize("command", [*COMMANDS, "schedules", "tasks", "top --once", "retention"])
def test_no_text_of_a_job_commands_the_terminal(
    run: Run, queue: Rowcall, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    declare(queue)
    for task in (HOSTILE, "refuses", "returns"):
        queue.enqueue(task, {"text": HOSTILE}, queue=HOSTILE, key=HOSTILE, tags=[HOSTILE])
    queue.drain()
    queue.enqueue(HOSTILE, {"text": HOSTILE}, queue=HOSTILE, key=f"other {HOSTILE}")
    queue.claim(HOSTILE, limit=1)
    queue.pause(HOSTILE, actor=HOSTILE)
    monkeypatch.setattr(sys, "argv", ["rowcall"])
    name, *words = command.split()
    result = run(name, "app:jobs", *words)
    assert CONTROL.findall(result.output) == []
    assert result.exit_code == 0


ROWS = ["jobs", "stats", "stuck", "errors", "retries", "retention", "tasks", "top --once", "schedules", "workers"]


@pytest.mark.parametrize("command", ROWS)
def test_a_name_with_line_breaks_takes_one_line_of_a_table(run: Run, queue: Rowcall, command: str) -> None:
    name = "first\nsecond\tthird"

    @queue.task(name=name, queue=name, max_attempts=1)
    def fails() -> None:
        raise ValueError("broken")

    fails.enqueue()
    queue.drain()
    fails.enqueue()
    queue.claim(name, limit=1)
    fails.enqueue()
    queue.pause(name, actor=name)
    queue.add_schedule(name, name, every=3600)
    with queue.worker(queues={name: 1}):
        verb, *words = command.split()
        result = run(verb, "app:jobs", *words)
    assert result.exit_code == 0, result.output
    assert "first\\nsecond\\tthird" in result.stdout
    assert [line for line in result.stdout.splitlines() if line.lstrip().startswith("second")] == []

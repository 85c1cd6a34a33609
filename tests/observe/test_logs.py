"""What a record carries, and how it is written as JSON."""

from __future__ import annotations

import json
import logging
import math
import sys
from collections.abc import Iterator
from enum import IntEnum

import pytest

from rowcall import JobLogFilter, JsonLogFormatter, Rowcall
from tests.worker.support import Site


class Broken:
    def __repr__(self) -> str:
        raise ValueError("no")

    __str__ = __repr__


class Level(IntEnum):
    HIGH = 3


class Kept(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.addFilter(JobLogFilter())
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


@pytest.fixture
def kept() -> Iterator[Kept]:
    handler = Kept()
    for name in ("rowcall", "library"):
        logging.getLogger(name).addHandler(handler)
        logging.getLogger(name).setLevel(logging.INFO)
    yield handler
    for name in ("rowcall", "library"):
        logging.getLogger(name).removeHandler(handler)
        logging.getLogger(name).setLevel(logging.NOTSET)


def written(message: object, *args: object, **more: object) -> dict[str, object]:
    record = logging.LogRecord("some.logger", logging.WARNING, __file__, 1, message, args, None)
    record.__dict__.update(more)
    line = JsonLogFormatter().format(record)
    assert "\n" not in line
    assert line.isascii()
    found: dict[str, object] = json.loads(line, parse_constant=pytest.fail)
    return found


def test_whatever_a_handler_logs_through_any_logger_names_its_job(jobs: Rowcall, kept: Kept) -> None:
    @jobs.task
    def in_a_thread() -> None:
        logging.getLogger("library").info("hello")

    @jobs.task(queue="mail")
    async def on_the_loop() -> None:
        logging.getLogger("library").info("hello")

    sent = [in_a_thread.enqueue(), on_the_loop.enqueue()]
    jobs.drain()
    logging.getLogger("library").info("outside")
    *inside, outside = (record for record in kept.records if record.name == "library")
    assert sorted((r.job_id, r.job_type, r.job_queue, r.job_attempt) for r in inside) == [  # type: ignore[attr-defined]
        (sent[0].id, "in_a_thread", "default", 1),
        (sent[1].id, "on_the_loop", "mail", 1),
    ]
    assert {vars(record)["worker"] for record in inside} == {jobs.get(sent[0].id).worker}
    assert "job_id" not in vars(outside)


def test_a_record_about_another_job_is_left_alone(site: Site, jobs: Rowcall, kept: Kept) -> None:
    @jobs.task(max_attempts=1)
    def inner() -> None:
        raise ValueError("enough")

    @jobs.task
    def outer() -> None:
        inner.enqueue()
        with Rowcall(site.database) as others:
            others.task(name="inner")(inner.__wrapped__)
            others.drain()

    outer.enqueue()
    jobs.drain(concurrency=1)
    [failure] = [record for record in kept.records if record.levelno == logging.ERROR]
    assert vars(failure)["job_type"] == "inner"
    assert vars(failure)["error_code"].startswith("INTERNAL")


def test_a_line_has_its_fields() -> None:
    said = written("sent %d", 3, created=0.25, msecs=250.0, process=7, job_id=12, job_type="mail", worker="w", more=[1])
    assert said == {
        "time": "1970-01-01T00:00:00.250Z",
        "level": "WARNING",
        "logger": "some.logger",
        "message": "sent 3",
        "pid": 7,
        "job_id": 12,
        "job_type": "mail",
        "worker": "w",
        "extra": {"more": [1]},
    }


@pytest.mark.parametrize(
    ("message", "args", "said"),
    [
        ('a "quoted"\nline\r\x1b[31m\u2028é\0', (), 'a "quoted"\nline\r\x1b[31m\u2028é\0'),
        ("half \udc80 a pair", (), "half ? a pair"),
        ("%d of %d", (1,), "'%d of %d' (1,)"),
        ("%s", (Broken(),), "'%s' <tuple that cannot be shown: ValueError>"),
        (17, (), "17"),
    ],
)
def test_any_message_is_one_valid_line(message: object, args: tuple[object, ...], said: str) -> None:
    assert written(message, *args)["message"] == said


def test_any_extra_is_valid() -> None:
    circle: list[object] = []
    circle.append(circle)
    said = written(
        "x",
        a=math.nan,
        b=10**30,
        c={1, 2},
        d={(1, 2): Broken()},
        e=b"\xff",
        f=Level.HIGH,
        g=True,
        circle=circle,
        half="\udc80",
        **{"\udc80": 1},
    )
    assert said["extra"] == {
        "a": "nan",
        "b": str(10**30),
        "c": [1, 2],
        "d": {"(1, 2)": "<Broken that cannot be shown: ValueError>"},
        "e": "b'\\xff'",
        "f": 3,
        "g": True,
        "circle": [[["[[...]]"]]],
        "half": "?",
        "?": 1,
    }


def test_exceptions_are_part_of_the_line() -> None:
    class Odd(Exception):
        __str__ = Broken.__str__

    try:
        raise Odd
    except Odd:
        said = written("x", exc_info=sys.exc_info(), stack_info="Stack:\n  here")
    assert (said["exception"], said["stack"]) == ("Odd", "Stack:\n  here")
    assert said["exception_message"] == "<Odd that cannot be shown: ValueError>"
    assert "test_logs.py" in str(said["traceback"])
    assert "exception" not in written("x", exc_info=(None, None, None))

"""`rowcall export`: every job with its attempts and steps, as it is, or without its values."""

from __future__ import annotations

import json
import traceback
from pathlib import Path

import pytest

from rowcall import Context, Encryption, Rowcall
from rowcall.cli.commands import export
from rowcall.operations.export import frames_of
from tests.cli.conftest import Run

KEY = "dGhpcyBpcyBhIGtleSBmb3IgdGhlIGRvY3MsIG5vIG0"


@pytest.fixture
def url(folder: Path) -> str:
    with Rowcall("sqlite:///queue.db", blob_threshold=1024) as jobs:

        @jobs.task(max_attempts=1)
        def charge(ctx: Context, card: str, amount: int) -> None:
            ctx.step("look up", lambda: {"name": "Ann"})
            ctx.log.info("charging %s", card)
            ctx.stream({"charged": card})
            raise ValueError(f"no money on {card}")

        charge.using(key="ann", tags=["region-7"]).enqueue("4111", 7)
        charge.enqueue("x" * 2000, 8)
        jobs.drain()
        for _ in range(5):
            jobs.enqueue("other", delay=60)
    return "sqlite:///queue.db"


def test_every_job_is_one_line(url: str, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "JOBS_AT_ONCE", 3)
    lines = [json.loads(line) for line in run("export", "--url", url).stdout.splitlines()]
    assert [line["job"]["id"] for line in lines] == [1, 2, 3, 4, 5, 6, 7]
    first, second = lines[:2]
    assert first["job"]["payload"] == {"card": "4111", "amount": 7}
    assert first["steps"][0]["result"] == {"name": "Ann"}
    assert first["attempts"][0]["traceback"].endswith("ValueError: no money on 4111\n")
    assert second["job"]["payload"]["card"] == "x" * 2000
    assert [(line["level"], line["message"], line["attempt"]) for line in first["log"]] == [
        ("INFO", "charging 4111", 1)
    ]
    assert first["streams"] == [{"name": "out", "part": 1, "value": {"charged": "4111"}}]
    chosen = run("export", "--url", url, "--type", "charge", "--status", "failed", "--order", "newest", "--json")
    assert [json.loads(line)["job"]["id"] for line in chosen.stdout.splitlines()] == [2, 1]
    assert len(run("export", "--url", url, "--limit", "4").stdout.splitlines()) == 4


def test_no_value_is_left_if_it_is_scrubbed(url: str, run: Run) -> None:
    (line,) = run("export", "--url", url, "--limit", "1", "--scrub").stdout.splitlines()
    printed = json.loads(line)
    job, (attempt,), (step,) = printed["job"], printed["attempts"], printed["steps"]
    assert not any(value in line for value in ("4111", "Ann", "ann", "region-7", "no money on 4"))
    assert job["payload"] == {"card": "text", "amount": "number"}
    assert (job["key"], job["tags"], job["error_code"]) == ("text", ["text"], "INTERNAL:ValueError")
    assert attempt["traceback"].splitlines()[-1] == "ValueError"
    assert "in charge" in attempt["traceback"]
    assert (step["name"], step["result"]) == ("look up", {"name": "text"})
    assert (printed["log"][0]["message"], printed["streams"][0]["value"]) == ("text", {"charged": "text"})


def test_no_line_is_left_of_what_exceptions_say() -> None:
    """Libraries say what was wrong in several lines, which may be indented as frames are."""
    said = "2 errors\nann@b.c\n  Input is ann@b.c\n\nDuring handling of ann@b.c"

    def fail() -> None:
        try:
            raise ValueError(said)
        except ValueError as error:
            error.add_note("from ann@b.c")
            raise KeyError(said) from error

    def fail_together() -> None:
        with pytest.raises(KeyError) as failed:
            fail()
        raise ExceptionGroup(said, [failed.value, OSError(said), ExceptionGroup(said, [TypeError(said)])])

    with pytest.raises(ExceptionGroup) as raised:
        fail_together()
    printed = frames_of("".join(traceback.format_exception(raised.value)))
    assert "ann@b.c" not in printed
    names = ["ExceptionGroup", "ValueError", "KeyError", "OSError", "ExceptionGroup", "TypeError"]
    assert [word for line in printed.splitlines() if (word := line.strip("| ")) in names] == names
    assert [printed.count(f", in {name}\n") for name in ("fail", "fail_together")] == [2, 2]


@pytest.fixture
def encrypted(folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("ROWCALL_ENCRYPTION_KEYS", KEY)
    with Rowcall("sqlite:///queue.db", blob_threshold=1024, encrypt=Encryption(keys=[KEY])) as jobs:

        @jobs.task
        def ask(ctx: Context) -> None:
            ctx.step("look up", lambda: "Ann" * 1000)
            ctx.log.info("asking Ann")
            ctx.stream("Ann?")
            ctx.wait_for("answer", choices=["Ann", "Bob"])

        job = ask.enqueue()
        jobs.signal(job, "later", {"by": "Ann"}, key="event")
        jobs.drain()
    return "sqlite:///queue.db"


def test_what_is_encrypted_is_readable(encrypted: str, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    printed = json.loads(run("export", "--url", encrypted).stdout)
    look_up, wait = printed["steps"]
    assert (look_up["result"], wait["question"]) == ("Ann" * 1000, {"choices": ["Ann", "Bob"]})
    assert (printed["log"][0]["message"], printed["streams"][0]["value"]) == ("asking Ann", "Ann?")
    assert printed["signals"] == [{"name": "later", "key": "event", "value": {"by": "Ann"}}]
    assert "Ann" not in run("export", "--url", encrypted, "--scrub").stdout
    monkeypatch.delenv("ROWCALL_ENCRYPTION_KEYS")
    assert "Ann" not in run("export", "--url", encrypted).stdout

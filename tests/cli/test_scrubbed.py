"""What the command line shows of a queue whose app has a scrubber."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from rowcall import Rowcall
from rowcall.declare.failures import SCRUBBING_FAILED, Failures
from rowcall.overview.scrub import scrubbed
from tests.cli.conftest import Run

APP = """
import re
from rowcall import Rowcall

def hide(text):
    text = re.sub(r'hunter2|-----BEGIN KEY-----\\n.*\\n-----END KEY-----', '***', text)
    return re.sub(r'("token":)"[^"]*"', r'\\1"***"', text)

jobs = Rowcall({url!r}, scrub={scrub})
"""
KEY = "-----BEGIN KEY-----\nabcdef\n-----END KEY-----"
SECRETS = ("hunter2", "abcdef", "t0k3n")


@pytest.fixture(params=["file", "server"])
def url(request: pytest.FixtureRequest, folder: Path) -> str:
    return "sqlite:///queue.db" if request.param == "file" else request.getfixturevalue("postgres_url")


def fill(url: str) -> None:
    """A job with secrets wherever there is room for one, stored before there was a scrubber."""
    with Rowcall(url) as jobs:

        @jobs.task(max_attempts=1)
        def log_in(password: str, headers: dict[str, str], key: str) -> None:
            raise ValueError(f"{password} is wrong")

        @jobs.task
        def reply() -> dict[str, object]:
            return {"deep": [{"token": "t0k3n"}, KEY, "hunter2"], "count": 3}

        log_in.using(tags=["for-hunter2"]).enqueue("hunter2", {"token": "t0k3n", "accept": "*"}, KEY)
        reply.enqueue()
        jobs.drain()
        jobs.cancel(jobs.enqueue("later").id, "because of hunter2")


@pytest.mark.parametrize(
    "command", ["show app:jobs 1", "show app:jobs 2", "show app:jobs 3", "jobs app:jobs"], ids=lambda text: text[:4]
)
def test_no_secret_is_shown(folder: Path, run: Run, url: str, command: str) -> None:
    fill(url)
    (folder / "app.py").write_text(APP.format(url=url, scrub="hide"))
    for options in ([], ["--json"]):
        result = run(*command.split(), *options)
        assert result.exit_code == 0, result.output
        assert [secret for secret in SECRETS if secret in result.output] == []
        assert "***" in result.output


def test_what_needs_attention_is_scrubbed(folder: Path, run: Run, url: str) -> None:
    with Rowcall(url) as jobs:
        for _ in range(6):
            jobs.enqueue("log_in", max_attempts=1)
            jobs.fail(jobs.claim("hand")[0], "A:B", "hunter2 is wrong")
        assert jobs.attention()[0].evidence["sample"] == "hunter2 is wrong"
    (folder / "app.py").write_text(APP.format(url=url, scrub="hide"))
    found = json.loads(run("top", "app:jobs", "--json").stdout)["attention"]
    assert [one["evidence"]["sample"] for one in found] == ["*** is wrong"]


def test_the_rest_is_shown_as_it_is(folder: Path, run: Run) -> None:
    fill("sqlite:///queue.db")
    (folder / "app.py").write_text(APP.format(url="sqlite:///queue.db", scrub="hide"))
    failed = json.loads(run("show", "app:jobs", "1", "--json").stdout)
    assert failed["job"]["payload"] == {"password": "***", "headers": {"token": "***", "accept": "*"}, "key": "***"}
    assert failed["job"]["tags"] == ["for-***"]
    assert failed["job"]["error_detail"] == failed["attempts"][0]["error_detail"] == "*** is wrong"
    assert "*** is wrong" in failed["attempts"][0]["traceback"]
    done = json.loads(run("show", "app:jobs", "2", "--json").stdout)
    assert done["job"]["result"] == {"deep": [{"token": "***"}, "***", "***"], "count": 3}


def test_a_scrubber_that_breaks_shows_nothing(folder: Path, run: Run) -> None:
    fill("sqlite:///queue.db")
    (folder / "app.py").write_text(APP.format(url="sqlite:///queue.db", scrub="lambda text: 1 / 0"))
    for command in (["show", "app:jobs", "1"], ["show", "app:jobs", "1", "--json"], ["jobs", "app:jobs", "--json"]):
        result = run(*command)
        assert [secret for secret in SECRETS if secret in result.stdout] == []
        assert SCRUBBING_FAILED in result.stdout


@pytest.mark.parametrize(
    ("scrub", "payload", "result"),
    [
        (lambda text: text.replace("4111", "*"), {"__raw__": '{"card":*}'}, "[*]"),
        (lambda text: "gone", {"__raw__": "gone"}, "gone"),
        (lambda text: text, {"card": 4111}, [4111]),
    ],
)
def test_what_is_no_json_any_more_is_shown_as_text(
    tmp_path: Path, scrub: Callable[[str], str], payload: object, result: object
) -> None:
    with Rowcall(tmp_path / "app.db") as jobs:
        jobs.enqueue("charge", {"card": 4111})
        job = jobs.dequeue("me")
        assert job is not None
        jobs.complete(job, [4111])
        shown = scrubbed(Failures(scrub), jobs.get(job.id))
    assert (shown.payload, shown.result) == (payload, result)

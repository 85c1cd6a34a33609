"""An attempt in a child process ends as one in a thread does."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from rowcall import Rowcall
from tests.worker import isolated
from tests.worker.isolation.support import enqueue, run_app
from tests.worker.support import Site


def test_an_async_handler_runs_there_too(jobs: Rowcall) -> None:
    job = enqueue(jobs, isolated.where_async)
    jobs.drain(concurrency=1)
    assert jobs.get(job.id).result not in (None, os.getpid())


def test_an_end_counts_as_it_does_in_a_thread(jobs: Rowcall) -> None:
    expected: dict[str, tuple[str, str | None, str | None]] = {
        "retry": ("failed", "RETRY:REQUESTED", "later"),
        "retry an error": ("failed", "OS:ENOENT", "[Errno 2] gone"),
        "snooze": ("scheduled", None, None),
        "fail": ("failed", "A:B", "said so"),
        "cancel": ("cancelled", "CANCELLED:BY_HANDLER", "not needed"),
        "busy": ("failed", "INTERNAL:TooBusy", "busy for 42.0 s"),
        "os": ("failed", "OS:ENOENT", "[Errno 2] gone"),
        "exit": ("failed", "INTERNAL:SystemExit", "3"),
        "no json": ("failed", "INVALID_OUTPUT:NOT_JSON", None),
        "large": ("succeeded", None, None),
    }
    made = {way: enqueue(jobs, isolated.end_as, way=way) for way in expected}
    jobs.drain(concurrency=1)
    for way, (status, code, detail) in expected.items():
        found = jobs.get(made[way].id)
        assert (way, found.status, found.error_code) == (way, status, code)
        if detail is not None:
            assert found.error_detail == detail
        if way in ("fail", "busy", "os", "exit"):
            assert "in end_as" in (jobs.attempts(found.id)[0].traceback or "")
    assert jobs.get(made["large"].id).result == "x" * 300_000


def test_a_chain_continues_from_a_child_and_reads_what_came_before(jobs: Rowcall) -> None:
    job = enqueue(jobs, isolated.go_on, by_name=True)
    assert jobs.drain().succeeded == 2
    assert jobs.get(job.id).result == "refused: continue"
    (last,) = (one for one in jobs.list(type="go_on").jobs if one.id != job.id)
    assert (last.chain_id, last.chain_index, last.result) == (job.id, 1, ["refused: continue", []])


FANS_OUT = """
import os
from rowcall import Context, Rowcall

jobs = Rowcall(os.environ["QUEUE"])


@jobs.task(isolation="process")
def part(number: int) -> int:
    return number * 10


@jobs.task(isolation="process")
def join(ctx: Context) -> object:
    return [ctx.previous, ctx.blockers]


@jobs.task(isolation="process")
def split(ctx: Context) -> str:
    parts = [part.enqueue(1), part.using(priority=5).enqueue(2)]
    ctx.continue_with(join.using(after=parts, max_attempts=2))
    return "split"


if __name__ == "__main__":
    job = split.enqueue()
    jobs.drain(concurrency=1)
    print(jobs.result(jobs.chain(job.id), timeout=20), jobs.chain(job.id).steps[1].max_attempts)
"""


@pytest.mark.parametrize("database", ["sqlite", "postgres"])
def test_a_handler_fans_out_from_a_child(
    request: pytest.FixtureRequest, site: Site, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = request.getfixturevalue("postgres_url") if database == "postgres" else f"sqlite:///{site.folder}/queue.db"
    monkeypatch.setenv("QUEUE", url)
    with run_app(site, FANS_OUT, "app.py") as script:
        assert script.wait() == 0, script.output
        assert script.output.splitlines()[-1] == "['split', [10, 20]] 2"


def test_secrets_are_scrubbed_before_they_are_stored(tmp_path: Path) -> None:
    with Rowcall(tmp_path / "app.db", scrub=lambda text: text.replace("said so", "***")) as jobs:
        job = enqueue(jobs, isolated.end_as, way="fail")
        jobs.drain(concurrency=1)
        assert jobs.get(job.id).error_detail == "***"
        assert "said so" not in (jobs.attempts(job.id)[0].traceback or "")


def test_a_payload_that_does_not_fit_is_reported_as_elsewhere(site: Site, jobs: Rowcall) -> None:
    job = enqueue(jobs, isolated.where, number=1)
    with closing(sqlite3.connect(site.database)) as connection, connection:
        connection.execute('update rowcall_job set payload = \'{"number": "one"}\'')
    jobs.drain(concurrency=1)
    assert jobs.get(job.id).error_code == "INVALID_INPUT:SCHEMA_MISMATCH"
    assert "number" in (jobs.get(job.id).error_detail or "")

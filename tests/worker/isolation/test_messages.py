"""What a child process and its worker say to each other."""

from __future__ import annotations

import logging

import pytest

from rowcall import Rowcall
from rowcall.testing import eventually
from tests.worker import isolated
from tests.worker.isolation.support import enqueue, is_gone, started
from tests.worker.support import Site, ended


def test_it_knows_its_job_and_is_heard(
    jobs: Rowcall, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.INFO, logger="rowcall")
    jobs.task(isolation="process", tags=["x"])(isolated.say)
    job = jobs.enqueue("say", {"words": ["all"]})
    jobs.drain(concurrency=1)
    assert jobs.get(job.id).result == [job.id, 1, ["x"], True, {"words": ["all"]}]
    (record,) = (record for record in caplog.records if record.getMessage() == "said all")
    assert (record.levelname, vars(record)["shade"], vars(record)["job_id"]) == ("WARNING", "red", job.id)
    output = capfd.readouterr()
    assert "printed by the handler" in output.out
    assert "and to stderr" in output.err


def test_policies_and_codes_of_the_app_see_the_error_and_its_attributes(jobs: Rowcall) -> None:
    seen: list[object] = []

    def after(attempt: int, error: BaseException) -> float:
        seen.append((attempt, type(error), getattr(error, "after", None)))
        return 1000.0

    jobs.error_code(isolated.TooBusy, "UPSTREAM:BUSY")
    jobs.task(isolation="process", retry=after)(isolated.end_as)
    job = jobs.enqueue("end_as", {"way": "busy"})
    jobs.drain(concurrency=1)
    assert seen == [(1, isolated.TooBusy, 42.0)]
    assert (jobs.get(job.id).status, jobs.get(job.id).error_code) == ("scheduled", "UPSTREAM:BUSY")


def test_a_handler_that_closes_what_is_not_its_own_ends_its_process(jobs: Rowcall) -> None:
    job = enqueue(jobs, isolated.close_everything)
    with jobs.worker(concurrency=1, grace=0):
        assert ended(jobs, job).error_code == "PROCESS:DIED"


def test_what_a_copy_of_a_child_says_is_not_about_the_next_job(site: Site, jobs: Rowcall) -> None:
    first = enqueue(jobs, isolated.return_twice, folder=str(site.folder))
    with jobs.worker(concurrency=1, grace=0):
        copy = ended(jobs, first).result
        assert isinstance(copy, int)
        assert copy > 0
        second = enqueue(jobs, isolated.hold, folder=str(site.folder), name="x")
        started(site, "x")
        site.open("copy")
        eventually(lambda: is_gone(copy))
        site.open("x")
        done = ended(jobs, second)
    assert (done.result, done.chain_id) == ("x", None)

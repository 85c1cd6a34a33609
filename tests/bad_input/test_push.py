"""Wrong targets and options are refused when a task is declared or a job is enqueued, and nothing is written."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rowcall import InvalidOption, PushOptions, Rowcall

PUSH = PushOptions(secrets=["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"])
REFUSED = [
    ("app.example", "must begin with https://"),
    ("http://app.example/jobs", r"must begin with https://, .*PushOptions\(allow_http=True\) allows http"),
    ("https://127.0.0.1/jobs", r"127.0.0.1 is not an address of the internet; see PushOptions\(allow_private"),
    ("https://[::ffff:10.0.0.1]/", "is not an address of the internet"),
    ("https://ann:pass@app.example/", "must have no user and password"),
    (7, "must be a URL"),
]


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[Rowcall]:
    with Rowcall(tmp_path / "app.db", push=PUSH) as found:
        yield found


def nothing() -> None: ...


@pytest.mark.parametrize(("target", "problem"), REFUSED)
def test_a_wrong_target(jobs: Rowcall, target: str, problem: str) -> None:
    with pytest.raises(InvalidOption, match=problem):
        jobs.push(target)(nothing)
    task = jobs.task(nothing)  # its name is still free
    with pytest.raises(InvalidOption, match=problem):
        task.using(target=target)
    for name in ("nothing", "unknown"):
        with pytest.raises(InvalidOption, match=problem):
            jobs.enqueue(name, target=target)
    assert jobs.list().jobs == []


def test_a_target_without_a_secret(tmp_path: Path) -> None:
    needs = "target needs a secret that signs the requests"
    with Rowcall(tmp_path / "app.db") as jobs:
        with pytest.raises(InvalidOption, match=needs):
            jobs.push("https://app.example/")(nothing)
        with pytest.raises(InvalidOption, match=needs):
            jobs.enqueue("send", target="https://app.example/")


def test_an_app_that_is_configured_later_may_declare_first(tmp_path: Path) -> None:
    jobs = Rowcall()
    task = jobs.push("https://app.example/")(nothing)
    with pytest.raises(InvalidOption, match="needs a secret"):
        task.enqueue()
    jobs.configure(url=tmp_path / "app.db", push=PUSH)
    assert task.enqueue().status == "pending"
    jobs.close()


def test_what_cannot_be_combined(jobs: Rowcall) -> None:
    with pytest.raises(InvalidOption, match="target cannot be combined with batch"):
        jobs.task(batch=3, target="https://app.example/")
    with pytest.raises(InvalidOption, match="target cannot be combined with batch"):
        jobs.push("https://app.example/", isolation="process")
    with pytest.raises(InvalidOption, match="target is given twice"):
        jobs.push("https://app.example/", target="https://app.example/")

    @jobs.task(batch=3)
    def batched(items: list[int]) -> None: ...

    with pytest.raises(InvalidOption, match="'batched', which runs in batches"):
        jobs.enqueue("batched", {"item": 1}, target="https://app.example/")


def test_the_target_of_a_job_cannot_be_edited(jobs: Rowcall) -> None:
    job = jobs.enqueue("send", target="https://app.example/")
    with pytest.raises(InvalidOption, match="target cannot be changed after the job was enqueued"):
        jobs.edit(job.id, target="https://other.example/")  # type: ignore[call-arg]


def test_push_options_must_be_push_options() -> None:
    with pytest.raises(InvalidOption, match="push must be a PushOptions, got str"):
        Rowcall(push="whsec_x")  # type: ignore[arg-type]

"""Schedules that are wrong, and what is said about each where it is declared: nothing is written."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rowcall import InvalidArguments, InvalidOption, Rowcall
from rowcall.app import queue_of
from rowcall.task import Task


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[Rowcall]:
    with Rowcall(tmp_path / "app.db") as queue:
        yield queue


@pytest.fixture
def digest(jobs: Rowcall) -> Task[[], None]:
    @jobs.task
    def digest() -> None: ...

    return digest


def nothing_is_written(jobs: Rowcall) -> bool:
    return jobs.schedules() == [] and queue_of(jobs).declared.schedules == {}


def test_six_fields(jobs: Rowcall) -> None:
    with pytest.raises(InvalidOption, match=r"must have 5 fields \(minute, hour, .*, got 6; .* every=…"):
        jobs.schedule("0 0 9 * * *")
    with pytest.raises(InvalidOption, match="got 6"):
        jobs.add_schedule("daily", "digest", cron="0 0 9 * * *")
    assert nothing_is_written(jobs)


def test_an_unknown_zone(jobs: Rowcall) -> None:
    with pytest.raises(InvalidOption, match="did you mean 'Europe/Berlin'"):
        jobs.schedule("0 9 * * *", tz="Europe/Belin")
    with pytest.raises(InvalidOption, match="unknown time zone"):
        jobs.add_schedule("daily", "digest", cron="0 9 * * *", tz="Nowhere")
    assert nothing_is_written(jobs)


def test_an_unknown_option(jobs: Rowcall) -> None:
    with pytest.raises(InvalidOption, match=r"^unknown option 'evry' \(did you mean 'every'\?\)$"):
        jobs.add_schedule("daily", "digest", evry=60)  # type: ignore[call-arg]
    assert nothing_is_written(jobs)


def test_a_task_that_needs_arguments(jobs: Rowcall) -> None:
    @jobs.task
    def greet(name: str) -> None: ...

    with pytest.raises(InvalidArguments, match=r"missing argument 'name'; pass the task's arguments with arguments="):
        jobs.schedule("0 9 * * *")(greet)
    with pytest.raises(InvalidArguments, match="missing argument 'name'"):
        jobs.add_schedule("daily", greet, cron="0 9 * * *")
    with pytest.raises(InvalidArguments, match="argument 'name'"):
        jobs.add_schedule("daily", "greet", {"name": 5}, cron="0 9 * * *")
    assert nothing_is_written(jobs)
    assert jobs.schedule("0 9 * * *", arguments={"name": "ann"})(greet) is greet


def test_an_unknown_way_to_catch_up(jobs: Rowcall) -> None:
    with pytest.raises(InvalidOption, match="catch_up must be"):
        jobs.schedule("0 9 * * *", catch_up="most")  # type: ignore[arg-type]
    with pytest.raises(InvalidOption, match="catch_up must be"):
        jobs.add_schedule("daily", "digest", cron="0 9 * * *", catch_up="most")  # type: ignore[arg-type]
    assert nothing_is_written(jobs)


def test_one_name_for_two(jobs: Rowcall, digest: Task[[], None]) -> None:
    assert jobs.schedule("0 9 * * *")(digest) is digest
    jobs.schedule("0 9 * * *")(digest)  # the same again
    with pytest.raises(InvalidOption, match="a different schedule named 'digest' is already declared"):
        jobs.schedule("0 17 * * *")(digest)
    with pytest.raises(InvalidOption, match="is already declared"):
        jobs.add_schedule("digest", "digest", cron="0 17 * * *")
    jobs.schedule("0 17 * * *", name="evening")(digest)
    assert queue_of(jobs).declared.schedules.keys() == {"digest", "evening"}


def test_the_wrong_way_round(jobs: Rowcall) -> None:
    def plain() -> None: ...

    with pytest.raises(InvalidOption, match="schedule goes above @jobs"):
        jobs.schedule("0 9 * * *")(plain)  # type: ignore[type-var]


def test_a_task_of_another_queue(jobs: Rowcall, tmp_path: Path) -> None:
    with Rowcall(tmp_path / "other.db") as other:
        task = other.task(name="digest")(lambda: None)
        with pytest.raises(InvalidOption, match="'digest' is declared on another queue"):
            jobs.schedule("0 9 * * *")(task)
        with pytest.raises(InvalidOption, match="'digest' is declared on another queue"):
            jobs.add_schedule("daily", task, cron="0 9 * * *")


@pytest.mark.parametrize("name", ["", "x" * 201, "a\0b", 5, "\ud800"])
def test_names_that_no_table_holds(jobs: Rowcall, digest: Task[[], None], name: str) -> None:
    with pytest.raises(InvalidOption, match="name must"):
        jobs.add_schedule(name, digest, every=60)
    with pytest.raises(InvalidOption, match="name must"):
        jobs.schedule(every=60, name=name)(digest)
    for act in (jobs.remove_schedule, jobs.run_schedule_now, jobs.pause_schedule, jobs.resume_schedule):
        with pytest.raises(InvalidOption, match="name must"):
            act(name)


def test_options_of_its_jobs(jobs: Rowcall) -> None:
    with pytest.raises(InvalidOption, match="priority must be a whole number"):
        jobs.add_schedule("daily", "digest", every=60, priority=2**40)
    with pytest.raises(InvalidOption, match="queue must have 1 to 200"):
        jobs.add_schedule("daily", "digest", every=60, queue="")
    with pytest.raises(InvalidOption, match="task must be a string"):
        jobs.add_schedule("daily", 5, every=60)  # type: ignore[arg-type]
    with pytest.raises(InvalidArguments, match="characters are more than a schedule can hold"):
        jobs.add_schedule("daily", "digest", {"text": "x" * 100_000}, every=60)
    assert nothing_is_written(jobs)

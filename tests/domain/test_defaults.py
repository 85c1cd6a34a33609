from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from rowcall import Backoff, InvalidOption, Rowcall, TaskDefaults

DEFAULTS = TaskDefaults(
    max_attempts=3,
    retry=Backoff.constant(7),
    timeout=0.05,
    queues={"mail": TaskDefaults(max_attempts=9, retry=lambda attempt, error: 100 * attempt)},
)


def test_a_queue_has_its_own_and_else_those_of_the_app() -> None:
    assert (DEFAULTS.of("other").max_attempts, DEFAULTS.of("mail").max_attempts) == (3, 9)
    assert (DEFAULTS.timeout_seconds("other"), DEFAULTS.timeout_seconds("mail")) == (0.05, 0.05)


@pytest.mark.parametrize(
    "given",
    [
        {"max_attempts": 0},
        {"max_attempts": "3"},
        {"retry": 5},
        {"timeout": 0},
        {"timeout": "soon"},
        {"queues": []},
        {"queues": {"mail": 3}},
        {"queues": {"*": TaskDefaults()}},
        {"queues": {"": TaskDefaults()}},
        {"queues": {"mail": TaskDefaults(queues={"x": TaskDefaults()})}},
        {"max_attempt": 3},
    ],
    ids=str,
)
def test_what_is_refused(given: dict[str, object]) -> None:
    with pytest.raises(InvalidOption):
        TaskDefaults(**given)  # type: ignore[arg-type]


def test_it_is_an_option_of_the_queue(tmp_path: Path) -> None:
    with pytest.raises(InvalidOption, match="defaults must be a TaskDefaults, got int"):
        Rowcall(tmp_path / "app.db", defaults=3)  # type: ignore[arg-type]


def test_tasks_that_say_nothing_have_them(tmp_path: Path) -> None:
    jobs = Rowcall()

    @jobs.task
    def plain() -> None:
        raise ValueError

    @jobs.task(max_attempts=2, retry=Backoff.constant(1))
    def own() -> None:
        raise ValueError

    @jobs.task
    async def slow() -> None:
        await asyncio.Event().wait()

    jobs.configure(tmp_path / "app.db", defaults=DEFAULTS)
    with jobs:
        made = [plain.enqueue(), plain.using(queue="mail").enqueue(), own.enqueue(), slow.enqueue()]
        by_name = jobs.enqueue("unknown", queue="mail")
        assert [job.max_attempts for job in (*made, by_name)] == [3, 9, 2, 3, 9]
        assert plain.using(max_attempts=1).enqueue().max_attempts == 1
        jobs.drain()
        waits = []
        for job in made:
            (attempt,) = jobs.attempts(job)
            assert attempt.next_run_at is not None
            assert attempt.finished_at is not None
            waits.append(round((attempt.next_run_at - attempt.finished_at).total_seconds()))
        assert waits == [7, 100, 1, 7]
        assert jobs.attempts(made[3])[0].error_code == "TIMEOUT:HANDLER"
        (claimed,) = jobs.claim("hand", queues=["mail"])
        jobs.fail(claimed, "TEST:FAILED")
        assert round((jobs.get(claimed).run_at - claimed.run_at).total_seconds()) == 100

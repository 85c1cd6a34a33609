"""Tasks with aliases: a worker also runs the jobs that were enqueued under an alias."""

from __future__ import annotations

import pytest

from rowcall import DuplicateTask, InvalidOption, Limit, Rowcall, Status
from rowcall.app import queue_of


class TestAliases:
    def test_jobs_under_the_old_name_run(self, jobs: Rowcall) -> None:
        old = jobs.enqueue("old", {"name": "ann"}).id
        greeted: list[str] = []

        @jobs.task(name="new", aliases=["old", "older"])
        def greet(name: str) -> None:
            greeted.append(name)

        greet.enqueue("bob")
        assert jobs.drain(concurrency=1).succeeded == 2
        assert greeted == ["ann", "bob"]
        assert jobs.get(old).type == "old"
        assert jobs.stats().by_type.keys() == {"old", "new"}

    def test_enqueueing_under_the_old_name_takes_the_options_of_the_task(self, jobs: Rowcall) -> None:
        @jobs.task(name="new", aliases=["old"], queue="mail", max_attempts=2)
        def greet(name: str) -> None: ...

        job = jobs.enqueue("old", {"name": "ann"})
        assert (job.type, job.queue, job.max_attempts) == ("old", "mail", 2)
        with pytest.raises(TypeError):
            jobs.enqueue("old", {"nam": "ann"})

    def test_a_batch_takes_both(self, jobs: Rowcall) -> None:
        calls: list[list[int]] = []

        @jobs.task(name="new", aliases=["old"], batch=4)
        def take(items: list[int]) -> None:
            calls.append(items)

        for number in range(4):
            jobs.enqueue("old" if number % 2 else "new", {"item": number})
        assert jobs.drain().succeeded == 4
        assert sorted(item for call in calls for item in call) == [0, 1, 2, 3]

    def test_a_limit_of_the_task_counts_both(self, jobs: Rowcall) -> None:
        for _ in range(2):  # by a program that does not know the limit
            jobs.enqueue("old")

        @jobs.task(name="new", aliases=["old"], limit=Limit("one", rate=1, per=60))
        def work() -> None: ...

        work.enqueue()
        assert jobs.drain().succeeded == 1

    def test_a_pause_of_the_task_is_one_of_its_aliases_too(self, jobs: Rowcall) -> None:
        @jobs.task(name="new", aliases=["old"])
        def work() -> None: ...

        old, new = jobs.enqueue("old").id, jobs.enqueue("new").id
        jobs.pause(task="new")
        assert jobs.drain().total == 0
        assert jobs.claim("by hand", limit=5) == []
        jobs.resume(task="new")
        jobs.pause(task="old")
        assert jobs.drain().succeeded == 1
        assert (jobs.get(old).status, jobs.get(new).status) == (Status.PENDING, Status.SUCCEEDED)

    @pytest.mark.parametrize(("name", "aliases"), [("old", []), ("another", ["new"]), ("another", ["old"])])
    def test_a_name_is_of_one_task(self, jobs: Rowcall, name: str, aliases: list[str]) -> None:
        @jobs.task(name="new", aliases=["old"])
        def work() -> None: ...

        with pytest.raises(DuplicateTask):

            @jobs.task(name=name, aliases=aliases)
            def other() -> None: ...

        assert queue_of(jobs).declared.tasks.keys() == {"new", "old"}

    @pytest.mark.parametrize("aliases", ["old", [""], [7], ["a", "a"], ["work"], 7], ids=str)
    def test_wrong_aliases_are_refused(self, jobs: Rowcall, aliases: list[str]) -> None:
        with pytest.raises(InvalidOption, match="aliases"):

            @jobs.task(aliases=aliases)
            def work() -> None: ...

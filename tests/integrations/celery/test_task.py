from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from rowcall import InvalidArguments, InvalidOption, JobFailed
from rowcall.app import queue_of
from rowcall.compat.celery import AsyncResult, Celery, Ignore, Reject, Task, current_task, states
from rowcall.overview.tasks import tasks_of
from tests.support import eventually


def test_options_of_a_call(shop: Any) -> None:
    later = shop.add.apply_async((1, 2), countdown=60, priority=7, expires=3600, queue="slow")
    assert (later.job.priority, later.job.queue, later.job.status) == (7, "slow", "scheduled")
    at = datetime.now(UTC).replace(microsecond=0) + timedelta(hours=1)
    assert shop.add.apply_async((1, 2), eta=at).job.run_at == at
    assert shop.add.apply_async((1, 2), eta=at.replace(tzinfo=None)).job.run_at == at
    assert shop.mail_receipt.delay("ann").job.queue == "mail"
    assert shop.report.delay("monday").job.queue == "reports"
    later.revoke()
    assert later.state == "REVOKED"
    with pytest.raises(InvalidOption, match="task_id: ids are numbers"):
        shop.add.apply_async((1, 2), task_id="d2f1-uuid")


def test_a_link_runs_after_success(shop: Any) -> None:
    first = shop.add.apply_async((1, 2), link=shop.double.s())
    jobs = shop.app.jobs
    jobs.drain()
    assert first.get(timeout=1) == 3
    assert [job.result for job in jobs.list(type="shop.double").jobs] == [6]


def test_only_what_asks_for_it_is_retried(shop: Any) -> None:
    charged, failed, flaky, gave_up = (
        shop.charge.delay(7),
        shop.wrong.delay(),
        shop.flaky.delay("x"),
        shop.give_up.delay(),
    )
    for _ in range(6):
        shop.app.jobs.drain()
    assert [tried for tried in shop.tries if tried != "x"] == [(7, retries, charged.id) for retries in range(3)]
    assert charged.state == failed.state == gave_up.state == "FAILURE"
    assert failed.job.attempt == 1
    assert "ValueError: never retried" in (failed.traceback or "")
    assert "MaxRetriesExceededError" in (gave_up.traceback or "")
    for ended in (charged, failed, gave_up):
        assert ended.traceback.count('File "') == ended.traceback.count('File "shop.py"') > 0
    with pytest.raises(JobFailed, match="no answer"):
        charged.get(timeout=1)
    assert isinstance(charged.result, JobFailed)
    assert flaky.get(timeout=10) == 3


def test_a_call_with_its_arguments_in_a_tuple(shop: Any) -> None:
    later = shop.add.signature((1, 2), countdown=60).delay()
    assert (later.job.payload["args"], later.job.status) == ([1, 2], "scheduled")
    assert shop.add.subtask((1,), {"y": 2}).delay().job.payload["kwargs"] == {"y": 2}


def test_a_call_that_runs_here(shop: Any) -> None:
    assert shop.add.apply((1, 2)).get() == shop.add.run(1, 2) == 3
    failed = shop.wrong.apply()
    assert (failed.state, failed.failed(), type(failed.result)) == ("FAILURE", True, ValueError)
    with pytest.raises(ValueError, match="never retried"):
        failed.get()
    assert shop.app.jobs.list().jobs == []


def test_what_is_retried_by_itself(shop: Any) -> None:
    options = {"autoretry_for": (OSError,), "dont_autoretry_for": (FileNotFoundError,)}

    def reads(missing: bool) -> None:
        raise FileNotFoundError if missing else ConnectionError

    task = shop.app.task(**options, retry_kwargs={"max_retries": 1, "countdown": 0})(reads)
    missing, cut = task.delay(True), task.delay(False)
    shop.app.jobs.drain()
    shop.app.jobs.drain()
    assert (missing.job.attempt, cut.job.attempt, cut.state) == (1, 2, "FAILURE")


def test_wrong_arguments_are_refused_where_they_are_given(shop: Any) -> None:
    for signature in (shop.add.s(1), shop.charge.s(), shop.add.s(1, 2) | shop.double.s(3)):
        with pytest.raises(InvalidArguments, match="argument"):
            signature.delay()
    assert shop.app.jobs.list().jobs == []


def test_a_list_of_tasks_shows_the_functions(shop: Any) -> None:
    shown = {task.name: task for task in tasks_of(queue_of(shop.app.jobs), {})}
    assert (shown["shop.add"].function, shown["shop.add"].arguments) == ("shop.add", ["x", "y"])
    assert shown["shop.charge"].arguments == ["order_id"]  # without self


def test_a_rate_limit_holds_jobs(app: Celery) -> None:
    class Slow(Task):
        rate_limit = "2/h"

    @app.task(base=Slow)
    def call_api() -> None: ...

    for _ in range(4):
        call_api.delay()
    assert app.jobs.drain().succeeded == 2
    held = app.jobs.why(app.jobs.list(status="pending").jobs[0])
    assert call_api.name in held.sentence


def test_an_error_that_is_retried_keeps_its_code(app: Celery) -> None:
    @app.task(bind=True, default_retry_delay=60)
    def charge(self: Any, how: str) -> None:
        try:
            raise FileNotFoundError(2, "gone")
        except OSError as error:
            raise self.retry(exc=error if how == "exc" else None) from None

    @app.task(autoretry_for=(OSError,))
    def read() -> None:
        raise FileNotFoundError(2, "gone")

    results = [charge.delay("exc"), read.delay(), charge.delay("plain")]
    app.jobs.drain()
    assert [result.state for result in results] == ["RETRY"] * 3
    assert [result.job.error_code for result in results] == ["OS:ENOENT", "OS:ENOENT", "RETRY:REQUESTED"]
    assert results[0].job.error_detail == "[Errno 2] gone"
    assert (results[1].traceback or "").endswith("FileNotFoundError: [Errno 2] gone\n")


def test_a_class_of_tasks(app: Celery) -> None:
    seen: list[object] = []

    class Retried(Task):
        autoretry_for = (KeyError,)
        max_retries = 1
        default_retry_delay = 0

        def __call__(self, *args: object, **kwargs: object) -> object:
            seen.append("around")
            return self.run(*args, **kwargs)

        def on_retry(self, exc: Exception, *_: object) -> None:
            seen.append(("retry", repr(exc)))

        def on_failure(self, exc: Exception, task_id: str, args: list[object], kwargs: object, einfo: str) -> None:
            seen.append(("failure", repr(exc), task_id, args, einfo.splitlines()[-1]))

        def after_return(self, status: str, *_: object) -> None:
            seen.append(status)

    @app.task(base=Retried)
    def lookup(name: str) -> None:
        raise KeyError(name)

    class Doubled(Task):
        name = "doubled"

        def run(self, number: int) -> int:
            return 2 * number

    doubled = app.register_task(Doubled()).delay(21)
    failed = lookup.delay("ann")
    for _ in range(2):
        app.jobs.drain()
    assert doubled.get(timeout=1) == 42
    error = "KeyError('ann')"
    retried = ["around", ("retry", error), "RETRY"]
    assert seen == [*retried, "around", ("failure", error, failed.id, ["ann"], "KeyError: 'ann'"), "FAILURE"]


def test_the_class_of_all_tasks_may_be_set_later(app: Celery) -> None:
    @app.task
    def name_of() -> str:
        return current_task.name

    class Marked(app.Task):  # type: ignore[name-defined,misc]
        def __call__(self) -> str:
            return f"<{self.run()}>"

    app.Task = Marked
    result = name_of.delay()
    app.jobs.drain()
    assert result.get(timeout=1) == f"<{name_of.name}>"


def test_states_of_a_running_task(app: Celery) -> None:
    seen: list[object] = []

    @app.task(bind=True)
    def steps(self: Any) -> str:
        self.update_state(state="PROGRESS", meta={"current": 1, "total": 4})
        running = AsyncResult(self.request.id)
        eventually(lambda: running.state == "PROGRESS")
        seen.extend([running.info, running.job.progress, running.ready()])
        with pytest.raises(InvalidOption, match="at most 500 characters"):
            self.update_state(state="PROGRESS", meta="x" * 500)
        return "done"

    result = steps.delay()
    app.jobs.drain(raise_errors=True)
    assert (result.state, result.info) == ("SUCCESS", "done")
    assert seen == [{"current": 1, "total": 4}, 0.25, False]
    with pytest.raises(InvalidOption, match="inside a task"):
        steps.update_state(state="PROGRESS")


def test_a_task_that_ends_in_another_way(app: Celery) -> None:
    @app.task(bind=True)
    def end(self: Any, state: str | None) -> None:
        if state:
            self.update_state(state=state, meta="why")
        raise Ignore

    @app.task
    def reject() -> None:
        raise Reject("broken")

    results = [end.delay(None), end.delay(states.FAILURE), end.delay(states.SUCCESS), reject.delay()]
    app.jobs.drain()
    assert [(result.state, result.job.error_code) for result in results] == [
        ("REVOKED", "CANCELLED:BY_HANDLER"),
        ("FAILURE", "CELERY:FAILURE"),
        ("SUCCESS", None),
        ("FAILURE", "CELERY:REJECTED"),
    ]
    assert results[2].get() == "why"


def test_what_cannot_be_declared(app: Celery) -> None:
    async def later() -> None: ...

    with pytest.raises(InvalidOption, match="is async"):
        app.task(later)
    with pytest.raises(InvalidOption, match="must be a class of tasks"):
        app.task(base=int)(print)
    with pytest.raises(AttributeError, match="a task has no 'replace'"):
        app.task(lambda: None).replace()
    with pytest.raises(InvalidOption, match="on_commit needs Celery"):
        app.task(print).delay_on_commit()

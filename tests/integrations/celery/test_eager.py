"""`task_always_eager`: calls run in place."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from rowcall import InvalidArguments, InvalidOption
from rowcall.compat.celery import Celery, EagerResult, Ignore, Reject, chain, chord, group

tries: list[int] = []
reports: list[object] = []


@pytest.fixture
def eager(app: Celery) -> Iterator[Celery]:
    app.conf.task_always_eager = True
    tries.clear()
    reports.clear()
    yield app
    assert app.jobs.list().jobs == []


@pytest.fixture
def add(eager: Celery) -> Any:
    @eager.task
    def add(x: int, y: int) -> int:
        return x + y

    return add


@pytest.fixture
def flaky(eager: Celery) -> Any:
    @eager.task(bind=True, max_retries=2)
    def flaky(self: Any, passes: int) -> int:
        tries.append(self.request.retries)
        assert self.request.is_eager
        if len(tries) < passes:
            raise self.retry(exc=ConnectionError("no answer"), countdown=3600)
        return passes

    return flaky


def test_a_call_and_its_retries(add: Any, flaky: Any) -> None:
    result = add.apply_async((1, 2), countdown=60, queue="slow")
    assert (result.get(), result.state, result.ready()) == (3, "SUCCESS", True)
    with pytest.raises(InvalidOption, match="ran in place"):
        result.job  # noqa: B018
    assert flaky.delay(3).get() == 3
    failed = flaky.delay(9)
    assert tries == [0, 1, 2, 0, 1, 2]
    assert (failed.state, "no answer" in failed.traceback) == ("FAILURE", True)
    assert failed.traceback.count('File "') == 1  # no frames of Rowcall
    with pytest.raises(ConnectionError):
        failed.get()
    with pytest.raises(InvalidArguments):
        add.delay(1)


def test_the_link_of_a_group_runs_once(app: Celery, add: Any) -> None:
    linked: list[str] = []

    @app.task
    def note() -> None:
        linked.append("linked")

    calls = group(add.s(n, n) for n in range(3))
    calls.link(note.s())
    assert calls.apply().get() == [0, 2, 4]
    assert linked == ["linked"]


def test_canvas(add: Any) -> None:
    results: list[Any] = [
        chain(add.s(1, 2), add.s(10))(),
        group(add.s(n, n) for n in range(3))(),
        chord([add.s(1, 1), add.s(2, 2)])(add.s([])),
        add.chunks([(1, 2), (3, 4), (5, 6)], 2)(),
        (group(add.s(1, 1), add.s(2, 2)) | add.si(5, 5)).delay(),
    ]
    assert [result.get() for result in results] == [13, [0, 2, 4], [2, 4], [[3, 7], [11]], 10]
    assert ~add.s(1, 2) == 3


def test_what_follows(eager: Celery, add: Any, flaky: Any) -> None:
    @eager.task
    def report(request: Any, exc: Exception, traceback: str) -> None:
        reports.append((request.args, repr(exc)))

    @eager.task
    def note(value: object) -> None:
        reports.append(value)

    add.apply_async((1, 2), link=note.s(), link_error=report.s())
    failed = chain(add.s(5, 4), flaky.s(), add.s(1)).apply_async(link_error=[report.s(), note.si("failed")])
    assert isinstance(failed, EagerResult)
    assert failed.failed()
    assert reports == [3, ((9,), "ConnectionError('no answer')"), "failed"]


def test_errors_are_raised_at_once_if_asked(eager: Celery, flaky: Any) -> None:
    assert flaky.apply((99,)).failed()
    eager.conf.task_eager_propagates = True
    with pytest.raises(ConnectionError):
        flaky.delay(99)
    assert flaky.apply((99,), throw=False).failed()


def test_other_ends(eager: Celery) -> None:
    @eager.task
    def end(how: type[Exception]) -> None:
        raise how

    assert [end.apply((how,)).state for how in (Ignore, Reject)] == ["IGNORED", "REJECTED"]

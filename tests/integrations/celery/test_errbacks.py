"""`link_error`, in a worker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rowcall import InvalidArguments
from rowcall.compat.celery import Celery, chain
from rowcall.integrations.celery.errbacks import errback_arguments


def test_what_follows_a_failure(shop: Any) -> None:
    app: Celery = shop.app
    reports: list[object] = []

    @app.task
    def report(request: Any, exc: Exception, traceback: str, where: str) -> None:
        reports.append((where, request.task, request.args, str(exc), traceback.splitlines()[-1]))

    @app.task
    def note(task_id: str) -> None:
        reports.append(task_id)

    failing = chain(shop.add.s(1, 2), shop.broken.s(), shop.double.s())
    failing.apply_async(link_error=[report.s("chain"), note.si("failed")])
    single = shop.wrong.apply_async(link_error=note.s())
    shop.add.apply_async((1, 2), link_error=report.s("never"))
    shop.wrong.apply_async(countdown=60, link_error=report.s("never")).revoke()
    app.jobs.drain()
    said = "failed with INTERNAL:ValueError: 3 is broken"
    (about_chain,) = [one for one in reports if isinstance(one, tuple)]
    assert about_chain[:3] == ("chain", "shop.broken", [])
    assert (said in about_chain[3], about_chain[4]) == (True, "ValueError: 3 is broken")
    assert {one for one in reports if isinstance(one, str)} == {"failed", single.id}
    assert {str(job.status) for job in app.jobs.list(type=note.name)} == {"succeeded"}


@pytest.mark.parametrize(
    ("function", "number"),
    [(lambda request, exc, traceback: None, 3), (lambda task_id: None, 1), (lambda *args: None, 3)],
)
def test_how_many_arguments_it_gets(function: Callable[..., object], number: int) -> None:
    assert len(errback_arguments(function, None, (), {})) == number


def test_one_that_does_not_fit(shop: Any) -> None:
    with pytest.raises(InvalidArguments, match="too many positional arguments"):
        shop.add.apply_async((1, 2), link_error=shop.wrong.s())
    assert shop.app.jobs.list().jobs == []

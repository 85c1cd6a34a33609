from __future__ import annotations

from typing import Any

from rowcall.compat.celery import AsyncResult


def test_delay_and_results(shop: Any) -> None:
    result = shop.add.delay(1, 2)
    assert (result.state, result.ready(), result.result) == ("PENDING", False, None)
    shop.app.jobs.drain()
    assert (result.get(timeout=1), result.state, result.successful()) == (3, "SUCCESS", True)
    assert AsyncResult(result.id).get(timeout=1) == 3
    assert shop.add(1, 2) == shop.add.apply((1, 2)) == 3
    result.forget()
    assert shop.app.jobs.list().jobs == []

"""RQ on Redis: `rq worker`."""

from __future__ import annotations

import os
from collections.abc import Iterable

from redis import Redis
from rq import Queue

from benchmarks.contestants.apps.handlers import handle

queue = Queue(connection=Redis.from_url(os.environ["FIELD_URL"]))


def work(what: str, number: int) -> None:
    handle(what, number)


TASK = "benchmarks.contestants.apps.rq_app.work"


def prepare() -> None:
    """Redis needs no tables."""


def enqueue(what: str, number: int) -> None:
    queue.enqueue(TASK, what, number)


def enqueue_many(what: str, numbers: Iterable[int]) -> None:
    queue.enqueue_many([Queue.prepare_data(TASK, (what, number)) for number in numbers])

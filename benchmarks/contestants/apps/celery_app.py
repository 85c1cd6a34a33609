"""Celery on Redis: `celery --app=app worker`, without a result backend. It has no call for many tasks."""

from __future__ import annotations

import os

from celery import Celery

from benchmarks.contestants.apps.handlers import handle

app = Celery("field", broker=os.environ["FIELD_URL"])


@app.task(name="work")
def work(what: str, number: int) -> None:
    handle(what, number)


def prepare() -> None:
    """Redis needs no tables."""


def enqueue(what: str, number: int) -> None:
    work.delay(what, number)

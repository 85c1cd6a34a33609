"""huey on SQLite: `huey_consumer app.huey`. It has no call for many jobs."""

from __future__ import annotations

import os

from huey import SqliteHuey

from benchmarks.contestants.apps.handlers import handle

huey = SqliteHuey(filename=os.environ["FIELD_URL"].removeprefix("sqlite:///"))


@huey.task()
def work(what: str, number: int) -> None:
    handle(what, number)


def prepare() -> None:
    huey.storage.initialize_schema()


def enqueue(what: str, number: int) -> None:
    work(what, number)

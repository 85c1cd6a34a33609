"""procrastinate: `procrastinate --app=app.app worker`."""

from __future__ import annotations

import os
from collections.abc import Iterable

from procrastinate import App, PsycopgConnector

from benchmarks.contestants.apps.handlers import handle

app = App(connector=PsycopgConnector(conninfo=os.environ["FIELD_URL"]))


@app.task(name="work")
def work(what: str, number: int) -> None:
    handle(what, number)


def prepare() -> None:
    app.open()
    app.schema_manager.apply_schema()


def enqueue(what: str, number: int) -> None:
    work.defer(what=what, number=number)


def enqueue_many(what: str, numbers: Iterable[int]) -> None:
    work.batch_defer(*({"what": what, "number": number} for number in numbers))

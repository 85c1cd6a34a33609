"""DBOS: `python app.py`, a program that launches DBOS and registers a queue. It has no call for many workflows."""

from __future__ import annotations

import os
import threading
from functools import cache

from dbos import DBOS, DBOSClient, DBOSConfig

from benchmarks.contestants.apps.handlers import handle

URL = os.environ["FIELD_URL"]
CONFIG: DBOSConfig = {"name": "field", "system_database_url": URL, "application_version": "1"}
QUEUE = "jobs"


@DBOS.workflow(name="work")
def work(what: str, number: int) -> None:
    handle(what, number)


def launch() -> None:
    DBOS(config=CONFIG)
    DBOS.launch()
    DBOS.register_queue(QUEUE)


@cache
def client() -> DBOSClient:
    return DBOSClient(system_database_url=URL)


def prepare() -> None:
    launch()
    DBOS.destroy()


def enqueue(what: str, number: int) -> None:
    client().enqueue({"queue_name": QUEUE, "workflow_name": "work"}, what, number)


if __name__ == "__main__":
    launch()
    threading.Event().wait()

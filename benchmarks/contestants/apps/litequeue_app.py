"""litequeue on SQLite. It has no worker: its docs show `pop` and `done`, which the loop below calls.

It sets `synchronous=normal`, which may lose commits in a power cut, so that is set to `full` as for the others.
"""

from __future__ import annotations

import json
import os
import time

from litequeue import LiteQueue

from benchmarks.contestants.apps.handlers import handle

EMPTY_SECONDS = 0.1

queue = LiteQueue(os.environ["FIELD_URL"].removeprefix("sqlite:///"))
queue.conn.execute("pragma synchronous = full")


def prepare() -> None:
    """Opening it has made the table."""


def enqueue(what: str, number: int) -> None:
    queue.put(json.dumps([what, number]))


def main() -> None:
    while True:
        message = queue.pop()
        if message is None:
            time.sleep(EMPTY_SECONDS)
            continue
        handle(*json.loads(message.data))
        queue.done(message.message_id)


if __name__ == "__main__":
    main()

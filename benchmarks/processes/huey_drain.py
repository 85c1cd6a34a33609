"""huey on SQLite, its own consumer, one worker thread: huey_drain FILE JOBS default|fastest.

`default` is SqliteHuey with nothing set: journal_mode=wal, and synchronous as SQLite has it on its own, which is full.
`fastest` sets what huey documents for speed: fsync=False (synchronous=off: a power cut may lose jobs or the file), no
results kept, a larger cache. Further worker threads share one connection; two and four were no quicker in a short
trial. Nothing is logged and no code listens to huey's signals, so neither costs anything.
"""

from __future__ import annotations

import itertools
import json
import logging
import sys
import threading
import time

from huey import SqliteHuey
from huey.consumer import Consumer

from benchmarks.noop import NUMBER, TO

SETTINGS: dict[str, dict[str, object]] = {
    "default": {},
    "fastest": {"fsync": False, "results": False, "cache_mb": 64},
}
LONGEST_DRAIN_SECONDS = 120.0


def main() -> None:
    path, jobs, settings = sys.argv[1], int(sys.argv[2]), SETTINGS[sys.argv[3]]
    logging.getLogger("huey").setLevel(logging.ERROR)
    huey = SqliteHuey(filename=path, **settings)
    handled, all_handled = itertools.count(1), threading.Event()

    def noop(n: int, to: str) -> None:
        if next(handled) == jobs:
            all_handled.set()

    task = huey.task()(noop)
    for _ in range(jobs):
        task(NUMBER, TO)
    consumer = Consumer(huey, workers=1, periodic=False, worker_type="thread")
    began = time.perf_counter()
    consumer.start()
    if not all_handled.wait(LONGEST_DRAIN_SECONDS):
        sys.exit(f"huey did not handle {jobs} jobs within {LONGEST_DRAIN_SECONDS:.0f} s")
    seconds = time.perf_counter() - began
    consumer.stop(graceful=True)
    print(json.dumps({"drain": jobs / seconds}))


if __name__ == "__main__":
    main()

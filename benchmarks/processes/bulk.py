"""Changes all jobs of a queue, again and again, in a separate process."""

from __future__ import annotations

import sys

from benchmarks.app import open_app

QUEUE = "later"


def main(url: str) -> None:
    with open_app(url).jobs as jobs:
        jobs.stats()
        print("ready", flush=True)
        jobs.set_priority(priority=1, queue=QUEUE)
        jobs.reschedule(delay=86_400, queue=QUEUE)
        jobs.cancel(queue=QUEUE)
        jobs.retry(status="cancelled", queue=QUEUE, rate=1)
        jobs.delete(queue=QUEUE)


if __name__ == "__main__":
    main(sys.argv[1])

"""Creates a queue and enqueues no-ops. Prints the first and the last id."""

from __future__ import annotations

import json
import sys

from benchmarks.app import enqueue_jobs, open_app


def main(url: str, count: int) -> None:
    app = open_app(url)
    with app.jobs:
        ids = enqueue_jobs(app.noop_async, count)
    print(json.dumps({"first": ids[0], "last": ids[-1]}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))

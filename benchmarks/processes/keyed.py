"""Enqueues jobs with a key each, 1,000 in a call: keyed URL COUNT. Prints jobs per second."""

from __future__ import annotations

import json
import sys
import time

from benchmarks.flow_app import open_flow_app
from benchmarks.noop import ARGUMENTS, MANY


def main(url: str, count: int) -> None:
    app = open_flow_app(url)
    with app.jobs:
        app.keyed.enqueue(-1, "")
        began = time.perf_counter()
        for start in range(0, count, MANY):
            app.keyed.enqueue_many([{**ARGUMENTS, "n": number} for number in range(start, start + MANY)])
        seconds = time.perf_counter() - began
    print(json.dumps({"keyed": count / seconds}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))

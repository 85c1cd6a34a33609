"""Enqueues one job after the other until SIGTERM, then says how it went: producer URL."""

from __future__ import annotations

import json
import signal
import sys
import threading

from benchmarks.app import open_app
from benchmarks.noop import NUMBER, TO
from rowcall import RowcallError


def main() -> None:
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    app = open_app(sys.argv[1])
    app.noop_async.enqueue(NUMBER, TO)
    print("ready", flush=True)
    enqueued = errors = 0
    while not stop.is_set():
        try:
            app.noop_async.enqueue(NUMBER, TO)
            enqueued += 1
        except RowcallError as error:
            errors += 1
            print(error, file=sys.stderr)
    app.jobs.close()
    print(json.dumps({"enqueued": enqueued, "errors": errors}))


if __name__ == "__main__":
    main()

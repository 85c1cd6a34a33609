"""One worker process, as `jobs.work()` runs it: worker URL [--stamps FILE] [--queue NAME] [--concurrency N] [--flows].

Says that it is ready, then waits for the end of its input, so that several begin together.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks.app import open_app
from rowcall import Rowcall


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("--stamps", type=Path)
    parser.add_argument("--queue")
    parser.add_argument("--concurrency", type=int, default=10)
    parser.add_argument("--flows", action="store_true")
    given = parser.parse_args()
    jobs = flow_jobs(given.url) if given.flows else open_app(given.url, given.stamps).jobs
    print("ready", flush=True)
    sys.stdin.read()
    jobs.work(queues=[given.queue] if given.queue else None, concurrency=given.concurrency)


def flow_jobs(url: str) -> Rowcall:
    from benchmarks.flow_app import open_flow_app  # older code has no such tasks

    return open_flow_app(url).jobs


if __name__ == "__main__":
    main()

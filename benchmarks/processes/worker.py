"""One worker process, as `jobs.work()` runs it: worker URL [--stamps FILE] [--queue NAME].

Says that it is ready, then waits for the end of its input, so that several begin together.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks.app import open_app


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("--stamps", type=Path)
    parser.add_argument("--queue")
    given = parser.parse_args()
    app = open_app(given.url, given.stamps)
    print("ready", flush=True)
    sys.stdin.read()
    app.jobs.work(queues=[given.queue] if given.queue else None)


if __name__ == "__main__":
    main()

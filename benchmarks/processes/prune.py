"""Prunes until there is nothing left, in a separate process."""

from __future__ import annotations

import sys

from benchmarks.app import open_app


def main(url: str) -> None:
    with open_app(url).jobs as jobs:
        jobs.stats()
        print("ready", flush=True)
        jobs.prune()


if __name__ == "__main__":
    main(sys.argv[1])

"""One worker process, as `jobs.work()` runs it: worker FILE [--stamps FILE]."""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks.app import open_app


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--stamps", type=Path)
    given = parser.parse_args()
    open_app(given.file, given.stamps).jobs.work()


if __name__ == "__main__":
    main()

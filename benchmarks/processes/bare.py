"""The bare ceiling of a drain from SQLite: bare FILE JOBS."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from benchmarks.bare.sqlite import BareSqlite

SINGLE_INSERTS = 1_000


def main() -> None:
    queue, jobs = BareSqlite(Path(sys.argv[1])), int(sys.argv[2])
    queue.insert_singly(min(SINGLE_INSERTS, jobs))
    queue.insert_many(jobs)
    print(json.dumps({"drain": queue.drain()}))
    queue.close()


if __name__ == "__main__":
    main()

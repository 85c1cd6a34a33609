"""Writes a backlog of one kind of jobs: backlog URL KIND COUNT. Prints their first id and their last one."""

from __future__ import annotations

import json
import sys

from benchmarks.flow_app import BACKLOGS, open_flow_app


def main(url: str, kind: str, count: int) -> None:
    app = open_flow_app(url)
    with app.jobs:
        ids = BACKLOGS[kind](app, count)
    print(json.dumps({"first": ids[0], "last": ids[-1]}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))

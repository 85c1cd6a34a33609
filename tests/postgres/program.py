"""What the worker processes of these tests run: `python -m tests.postgres.program URL FOLDER OPTIONS`."""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path

from tests.postgres.support import PostgresSite
from tests.worker.program import declare


def main() -> None:
    url, folder, text = sys.argv[1:]
    given = json.loads(text)
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s", stream=sys.stdout)
    site = PostgresSite(Path(folder), url, **given["options"])
    declare(site.jobs, site)
    site.jobs.work(log_jobs="failures", **given["settings"])
    print("ended", flush=True)


if __name__ == "__main__":
    main()

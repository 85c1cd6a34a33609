"""The app of the idle worker of `rowcall bench`; $ROWCALL_URL names the database."""

from __future__ import annotations

import os

from rowcall.cli.bench.tasks import PREFIX, Bench

jobs = Bench(None, os.environ[PREFIX]).jobs

"""What the idle worker of `rowcall bench` is started with; $ROWCALL_URL names the file."""

from __future__ import annotations

from rowcall.cli.bench_tasks import Bench

jobs = Bench().jobs

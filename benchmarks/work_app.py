"""The app of the worker processes, which are started as in the README: `rowcall work benchmarks.work_app:jobs`.

At the end of the import it says that it is ready and waits for the end of its input, so that several workers begin
together.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from benchmarks.app import open_app
from rowcall import Rowcall


def flow_jobs(url: str) -> Rowcall:
    from benchmarks.flow_app import open_flow_app  # older code has no such tasks

    return open_flow_app(url).jobs


if os.environ.get("ROWCALL_BENCH_WITHOUT") or os.environ.get("ROWCALL_BENCH_ROUNDS"):
    from benchmarks.patches import apply  # older code has other lanes

    apply()
_URL, _STAMPS = os.environ["ROWCALL_BENCH_URL"], os.environ["ROWCALL_BENCH_STAMPS"]
jobs = flow_jobs(_URL) if os.environ["ROWCALL_BENCH_FLOWS"] else open_app(_URL, Path(_STAMPS) if _STAMPS else None).jobs
print("ready", flush=True)
sys.stdin.read()

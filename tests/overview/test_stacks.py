"""Why a worker does not answer, and requests that no one removed."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import msgspec

from rowcall import Rowcall
from rowcall.overview.stacks import STALE_MS, _why_silent, stale_requests


def test_a_silent_worker_is_described(tmp_path: Path) -> None:
    with Rowcall(f"sqlite:///{tmp_path}/queue.db") as jobs, jobs.worker():
        (worker,) = jobs.workers()
    now = worker.heartbeat_at
    older = msgspec.structs.replace(worker, version="0.0.9")
    assert _why_silent(older, now).startswith("it runs version 0.0.9 of Rowcall, and this is ")
    alone = msgspec.structs.replace(worker, lock_path=None)
    assert _why_silent(alone, now + timedelta(seconds=40)) == "it is silent for 40 s"
    assert _why_silent(alone, now).startswith("it is alive")


def test_old_and_odd_requests_are_stale() -> None:
    now = 2_000_000_000_000
    fresh, old = f"stack:1:2:{now - 5000}:ab", f"stack:1:2:{now - STALE_MS - 1}:ab"
    settings = dict.fromkeys([fresh, old, "stack:", "stack:1:2:x:ab", "duty of fold"], "")
    assert stale_requests(settings, now) == [old, "stack:", "stack:1:2:x:ab"]

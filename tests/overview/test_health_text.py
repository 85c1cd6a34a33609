from __future__ import annotations

from pathlib import Path

from rowcall import Finding, Rowcall, Severity, WorkerInfo
from rowcall.overview.health_text import health_text, verdict
from rowcall.testing import FakeClock

CRITICAL = Finding(code="no_worker", severity=Severity.CRITICAL, message="", evidence={}, advice="")
WARNING = Finding(code="clock", severity=Severity.WARNING, message="", evidence={}, advice="")


def test_health_is_said_in_words(tmp_path: Path) -> None:
    clock = FakeClock()
    with Rowcall(tmp_path / "app.db", clock=clock) as jobs:
        assert health_text([], jobs.stats(), []) == "All is well. No worker is alive, no job runs, and none waits."
        jobs.enqueue("send")
        jobs.enqueue("send")
        jobs.claim("by-hand", limit=1)
        clock.advance(90)
        said = health_text([CRITICAL, WARNING, WARNING], jobs.stats(), [])
        assert said == (
            "Not well: 1 critical problem and 2 warnings. No worker is alive, 1 job runs, and 1 job waits, the oldest"
            " for 1 min 30 s."
        )
        with jobs.worker(queues="other"):
            (worker,) = jobs.workers()
        assert isinstance(worker, WorkerInfo)
        assert health_text([WARNING], jobs.stats(), [worker]).startswith(
            "Jobs run, but there is 1 warning. 1 worker is alive, 1 job runs"
        )
    assert [verdict(found) for found in ([], [WARNING], [WARNING, CRITICAL])] == ["well", "warning", "critical"]

"""Above about 100 jobs a second, the log has one line a second for each task."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import pytest

from rowcall import Rowcall
from rowcall.app import queue_of
from rowcall.base.clock import SystemClock
from rowcall.domain.outcome import SUCCESS, AttemptBudget, Raised, Transition, decide
from rowcall.store.queries.claims import Ready
from rowcall.testing import eventually
from rowcall.worker import attempt_log
from rowcall.worker.attempt import Attempt, CommonFacts
from rowcall.worker.attempt_log import AttemptLog, LogPace
from rowcall.worker.completion import Completion
from rowcall.worker.registrar import Identity
from rowcall.worker.settings import LogJobs

RAISED = Raised(ValueError("no"), "INTERNAL:ValueError", "no")
FAILURE, RETRY = decide(AttemptBudget(1, 1), RAISED), decide(AttemptBudget(1, 2), RAISED)


class Log:
    """A log of attempts, with a timer that stands still until it is moved."""

    def __init__(self, jobs: Rowcall, caplog: pytest.LogCaptureFixture, log_jobs: LogJobs = "auto") -> None:
        self.now, self._last_id, self._records = 100.0, 0, caplog
        caplog.set_level(logging.INFO, logger="rowcall")
        self.pace = LogPace(log_jobs, lambda: self.now)
        self._report = AttemptLog(self.pace)
        self._facts = CommonFacts(Identity("web-1:7", None), 0, SystemClock(), Completion(queue_of(jobs)))
        for name in ("mail", "resize"):
            jobs.task(name=name)(_nothing)
        self._tasks = queue_of(jobs).declared.tasks

    def end(
        self, count: int, task: str = "mail", transition: Transition = SUCCESS, took: Sequence[float] = (0.0004,)
    ) -> None:
        """End a group of attempts."""
        self._report.settled(*_group([self._attempt(task, transition, took[n % len(took)]) for n in range(count)]))

    def _attempt(self, task: str, transition: Transition, took: float) -> Attempt:
        self._last_id += 1
        ready = Ready(self._last_id, task, "default", "{}", 1, 0, 0, 0, None, None, None)
        attempt = Attempt(ready, self._tasks[task], self._facts)
        attempt.started_at, attempt.finished_at, attempt.transition = 50.0, 50.0 + took, transition
        return attempt

    def said(self) -> list[str]:
        """Return what was logged since the last call, without the lines of single successes, which are counted."""
        messages = [record.getMessage() for record in self._records.records]
        self._records.clear()
        alone = sum("succeeded in" in message for message in messages)
        return [*([f"{alone} alone"] if alone else []), *(text for text in messages if "succeeded in" not in text)]


def _nothing() -> None: ...


def _group(attempts: list[Attempt]) -> tuple[list[Attempt], set[int]]:
    return attempts, {attempt.ready.id for attempt in attempts}


EXPLAINED = "above 100 jobs a second: one line a second per task; see --log-jobs"


def test_few_jobs_a_second_have_a_line_each(jobs: Rowcall, caplog: pytest.LogCaptureFixture) -> None:
    log = Log(jobs, caplog)
    for _ in range(20):
        log.end(45)
        log.end(45)
        log.now += 1.0
        log.pace.turn()
    assert log.said() == ["1800 alone"]
    assert log.pace.log_at == float("inf")


def test_many_jobs_a_second_share_a_line_for_each_task(jobs: Rowcall, caplog: pytest.LogCaptureFixture) -> None:
    log = Log(jobs, caplog)
    log.end(90)
    log.end(18_204)
    log.end(2, "resize", took=[0.25])
    assert log.said() == ["90 alone", EXPLAINED]
    log.now += 0.6
    log.end(1, transition=FAILURE)
    log.end(2, transition=RETRY)
    assert len(log.said()) == 3
    assert 0.3 < log.pace.log_at - log.now < 0.5
    log.pace.turn()
    assert log.said() == []
    log.now += 0.4
    log.pace.turn()
    record = caplog.records[0]
    assert log.said() == ["mail: 18,204 succeeded, 3 failed, p95 0.4 ms", "resize: 2 succeeded, p95 250 ms"]
    fields = vars(record)
    assert [fields[name] for name in ("job_type", "worker", "succeeded", "failed", "p95_ms")] == [
        *("mail", "web-1:7", 18_204, 3, 0.4)
    ]
    log.end(50)
    log.now += 1.0
    log.end(20)  # the second before had few: lines again, and the explanation is not repeated
    assert log.said() == ["mail: 50 succeeded, p95 0.4 ms", "20 alone"][::-1]
    log.end(200)
    log.pace.end_second()  # as at the end of a worker
    assert log.said() == ["mail: 200 succeeded, p95 0.4 ms"]


def test_groups_of_several_tasks_are_told_apart(jobs: Rowcall, caplog: pytest.LogCaptureFixture) -> None:
    log = Log(jobs, caplog)
    attempts = [log._attempt(task, SUCCESS, 0.001) for task in ["mail", "resize", "mail"] * 100]
    log._report.settled(*_group(attempts))
    log.pace.end_second()
    assert log.said() == [EXPLAINED, "mail: 200 succeeded, p95 1.0 ms", "resize: 100 succeeded, p95 1.0 ms"]


def test_the_share_of_slow_jobs_decides_p95_however_many_there_are(
    jobs: Rowcall, caplog: pytest.LogCaptureFixture
) -> None:
    log = Log(jobs, caplog)
    for _ in range(500):
        log.end(101, took=[0.001] * 94 + [2.0] * 7)
    log.pace.end_second()
    assert log.said()[-1] == "mail: 50,500 succeeded, p95 2 s"
    log.end(101, took=[0.000001])
    log.pace.end_second()
    assert log.said() == ["mail: 101 succeeded, p95 <0.1 ms"]


@pytest.mark.parametrize(("log_jobs", "said"), [("all", ["500 alone"]), ("failures", [])])
def test_other_choices_do_not_depend_on_the_rate(
    jobs: Rowcall, caplog: pytest.LogCaptureFixture, log_jobs: LogJobs, said: list[str]
) -> None:
    log = Log(jobs, caplog, log_jobs)
    log.end(500)
    log.end(1, transition=FAILURE)
    log.pace.end_second()
    *others, failure = log.said()
    assert others == said
    assert failure == "job 501 (mail): attempt 1 of 1 failed for good (INTERNAL:ValueError: no)"


def test_nothing_is_counted_above_the_level_of_the_lines(jobs: Rowcall, caplog: pytest.LogCaptureFixture) -> None:
    log = Log(jobs, caplog)
    caplog.set_level(logging.WARNING, logger="rowcall")
    log.end(500)
    assert log.pace.log_at == float("inf")
    log.pace.end_second()
    assert log.said() == []


def test_an_idle_worker_logs_the_last_second(
    jobs: Rowcall, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempt_log, "MOST_LINES", 0)
    monkeypatch.setattr(attempt_log, "LOG_SECONDS", 0.05)
    caplog.set_level(logging.INFO, logger="rowcall")
    task = jobs.task(_nothing)
    task.enqueue_many([{}] * 3)
    with jobs.worker():
        eventually(lambda: sum(getattr(record, "succeeded", 0) for record in caplog.records) == 3)

"""Handlers in threads that run out of time: the thread is asked to stop, and its slot stays taken while it lives."""

from __future__ import annotations

import threading

from rowcall import Backoff, Context, Rowcall
from rowcall.testing import eventually
from tests.worker.support import comes_to, ended, outcomes


def test_a_thread_past_its_timeout_is_asked_to_stop_and_its_attempt_is_settled(jobs: Rowcall) -> None:
    let_go = threading.Event()
    told: list[bool] = []

    @jobs.task(timeout=0.05, retry=Backoff.constant(600))
    def slow(ctx: Context) -> None:
        let_go.wait()
        told.append(ctx.cancelled)

    job = slow.enqueue()
    with jobs.worker(concurrency=2):
        settled = comes_to(jobs, job, "scheduled")
        assert (settled.attempt, settled.error_code) == (1, "TIMEOUT:HANDLER")
        assert told == []
        let_go.set()
        eventually(lambda: told == [True])
    assert outcomes(jobs, job) == ["failed"]
    assert jobs.get(job.id).status == "scheduled"


def test_its_slot_stays_taken_until_it_ends(jobs: Rowcall) -> None:
    begun, let_go, others_go = threading.Event(), threading.Event(), threading.Event()
    others: list[int] = []

    @jobs.task(timeout=0.05, max_attempts=1)
    def slow() -> None:
        begun.set()
        let_go.wait()

    @jobs.task
    def other() -> None:
        others.append(1)
        others_go.wait()

    with jobs.worker(concurrency=2):
        while not begun.is_set():  # on a busy machine its time may be over before its thread runs
            assert ended(jobs, slow.enqueue()).error_code == "TIMEOUT:HANDLER"
        other.enqueue_many([{}] * 3)
        eventually(lambda: len(others) == 1)
        assert jobs.stats().by_status["running"] == 1  # the one free slot; nothing is claimed for the taken one
        let_go.set()
        eventually(lambda: len(others) == 2)
        assert jobs.stats().by_status["running"] == 2
        others_go.set()
        eventually(lambda: jobs.stats().by_status["succeeded"] == 3)

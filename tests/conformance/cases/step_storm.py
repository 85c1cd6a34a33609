"""Workers are killed while handlers made of steps, sleeps and signals run."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from rowcall import Rowcall, WrongState
from tests.conformance.cases.crash import kill_until
from tests.conformance.fixtures import OpenQueue, StartProgram
from tests.conformance.notes import Note, Notes
from tests.conformance.program import JOURNEY, declare


@pytest.mark.crash
@pytest.mark.slow
class TestStepStorm:
    COUNT = int(os.environ.get("ROWCALL_TEST_STEP_STORM_JOBS", "40"))

    def test_a_finished_step_is_never_run_again(
        self, open_queue: OpenQueue, start_program: StartProgram, notes: Notes
    ) -> None:
        jobs = open_queue()
        declared = declare(jobs, notes)
        written = [
            *declared.journey.using(max_attempts=1000).enqueue_many([{}] * (self.COUNT // 2)),
            *declared.journey_async.using(max_attempts=1000).enqueue_many([{}] * (self.COUNT // 2)),
        ]
        signals = self._signals(jobs, [job.id for job in written])
        readers = [Follower(jobs, job.id) for job in (written[0], written[-1])]

        def done() -> bool:
            for _ in range(self.COUNT // 8):  # before, while and after the handler waits for it
                next(signals, None)
            return jobs.stats().by_status["succeeded"] == len(written)

        killed = kill_until(done, jobs, start_program, 3)
        assert killed, "no process was killed"
        for reader in readers:
            reader.thread.join()
            assert reader.read == values_of(jobs, reader.job_id), "a reader missed a value, or saw one twice"
        by_job: dict[int, list[Note]] = {job.id: [] for job in written}
        for note in notes.read():
            by_job[note.job_id].append(note)
        for job in written:
            self._check(jobs, job.id, by_job[job.id])

    def test_each_child_is_enqueued_once_and_each_question_has_one_answer(
        self, open_queue: OpenQueue, start_program: StartProgram, notes: Notes
    ) -> None:
        jobs = open_queue()
        declare(jobs, notes)
        names = ("family", "family_async")
        parents = [jobs.enqueue(names[number % 2], max_attempts=1000) for number in range(self.COUNT)]

        def done() -> bool:
            for wait in jobs.open_waits(asks=True).waits:
                jobs.signal(wait.job_id, wait.name, "approve", position=wait.position, actor="ann")
                with suppress(WrongState):
                    jobs.signal(wait.job_id, wait.name, "reject", position=wait.position, actor="bob")
            return jobs.stats().by_status["succeeded"] == 6 * len(parents)

        assert kill_until(done, jobs, start_program, 3), "no process was killed"
        for parent in parents:
            assert jobs.get(parent).result == 16
            children = jobs.list(parent=parent, limit=50).jobs
            assert [child.status for child in children] == ["succeeded"] * 5, "a child was enqueued twice, or never ran"
            assert {child.id for child in children} == {step.child_id for step in jobs.steps(parent)} - {None}
            assert [step.result for step in jobs.steps(parent) if step.name == "approval"] == ["approve"]
            answers = [event.actor for event in jobs.timeline(parent) if event.event == "SIGNALLED"]
            assert answers == ["ann"], "a question has more than one answer"

    def _signals(self, jobs: Rowcall, ids: list[int]) -> Iterator[None]:
        for job_id in ids:
            jobs.signal(job_id, "go", f"signal of {job_id}")
            yield

    def _check(self, jobs: Rowcall, job_id: int, notes: list[Note]) -> None:
        stored = {step.name: str(step.result) for step in jobs.steps(job_id) if step.kind == "step"}
        assert list(stored) == list(JOURNEY)
        tokens = list(stored.values())
        assert [step.question for step in jobs.steps(job_id) if step.kind == "wait"] == [{"prompt": "Go?"}]
        assert jobs.get(job_id).result == [*tokens[:4], f"signal of {job_id}", tokens[4]]
        finished: set[str] = set()
        for note in notes:
            event, name, token = note.event.split(":")
            if event == "saw":
                finished.add(name)
                assert token == stored[name], "an attempt saw another result than the stored one"
            else:
                assert name not in finished, "a finished step was run again"
        assert finished == set(JOURNEY)
        ran = {tuple(note.event.split(":")[1:]) for note in notes if note.event.startswith("ran:")}
        assert set(stored.items()) <= ran, "a result was stored without its effect"
        self._check_stream(jobs, job_id, stored)

    def _check_stream(self, jobs: Rowcall, job_id: int, stored: dict[str, str]) -> None:
        values = values_of(jobs, job_id)
        assert [part for part, _ in values] == sorted(part for part, _ in values)
        told = [(name, token, number) for _, (name, token, number) in values]
        assert len(set(told)) == len(told), "a value was appended twice"
        for name, token in stored.items():
            numbers = [number for a_name, a_token, number in told if (a_name, a_token) == (name, token)]
            assert numbers == [0, 1, 2], "a value of a finished step is lost, or out of order"


def values_of(jobs: Rowcall, job_id: int) -> list[tuple[int, Any]]:
    """Return the values of the job's stream with their parts."""
    reader = jobs.stream(job_id)
    return [(reader.part, value) for value in reader]


class Follower:
    """Reads the stream of a job in a thread, until the job ends."""

    def __init__(self, jobs: Rowcall, job_id: int) -> None:
        self.job_id = job_id
        self.read: list[tuple[int, Any]] = []
        self.thread = threading.Thread(target=lambda: self.read.extend(values_of(jobs, job_id)), daemon=True)
        self.thread.start()

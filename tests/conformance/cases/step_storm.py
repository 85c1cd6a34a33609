"""Workers are killed while handlers made of steps, sleeps and signals run."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from rowcall import Rowcall
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

        def done() -> bool:
            for _ in range(self.COUNT // 8):  # before, while and after the handler waits for it
                next(signals, None)
            return jobs.stats().by_status["succeeded"] == len(written)

        killed = kill_until(done, jobs, start_program, 3)
        assert killed, "no process was killed"
        by_job: dict[int, list[Note]] = {job.id: [] for job in written}
        for note in notes.read():
            by_job[note.job_id].append(note)
        for job in written:
            self._check(jobs, job.id, by_job[job.id])

    def _signals(self, jobs: Rowcall, ids: list[int]) -> Iterator[None]:
        for job_id in ids:
            jobs.signal(job_id, "go", f"signal of {job_id}")
            yield

    def _check(self, jobs: Rowcall, job_id: int, notes: list[Note]) -> None:
        stored = {step.name: str(step.result) for step in jobs.steps(job_id) if step.kind == "step"}
        assert list(stored) == list(JOURNEY)
        tokens = list(stored.values())
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

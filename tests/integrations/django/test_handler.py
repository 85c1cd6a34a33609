"""What a worker calls for a Django task."""

from __future__ import annotations

from django.test import TestCase

from rowcall.django import jobs, run_jobs
from rowcall.integrations.django.framework import TaskResultStatus, task_finished
from tests.integrations.django.shop import tasks


class TestHandler(TestCase):
    def test_a_task_that_asks_for_a_retry_has_not_finished(self) -> None:
        finished: list[object] = []

        def note(task_result: object, **_: object) -> None:
            finished.append(task_result)

        task_finished.connect(note)
        self.addCleanup(task_finished.disconnect, note)
        result = tasks.ask_for_a_retry.enqueue()
        self.assertEqual(run_jobs().retried, 1)
        result.refresh()
        self.assertEqual((result.status, finished), (TaskResultStatus.READY, []))

    def test_earlier_attempts_are_part_of_the_context(self) -> None:
        result = tasks.count_attempts.enqueue()
        self.assertEqual(run_jobs(raise_errors=False).retried, 1)
        jobs.reschedule(int(result.id), run_at=result.enqueued_at)
        run_jobs()
        result.refresh()
        self.assertEqual((result.return_value, result.attempts), ([2, 1], 2))

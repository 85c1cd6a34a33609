"""Jobs as results of the framework."""

from __future__ import annotations

from datetime import UTC, datetime

from django.core.exceptions import SuspiciousOperation
from django.test import SimpleTestCase

from rowcall import Attempt, Job, Status
from rowcall.integrations.django.framework import TaskResultStatus
from rowcall.integrations.django.results import STATUSES, result_of, task_of
from tests.integrations.django.shop import tasks

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def job(type: str, status: Status = Status.FAILED) -> Job:
    return Job(id=7, type=type, queue="default", payload={}, status=status, run_at=NOW, created_at=NOW)


class TestResults(SimpleTestCase):
    def test_every_status_has_one_of_the_framework(self) -> None:
        self.assertEqual(set(STATUSES), set(Status))

    def test_the_class_of_an_error(self) -> None:
        begin = 'Traceback (most recent call last):\n  File "a.py", line 1, in f\n'
        for text, path in {
            f"{begin}    g()\nValueError: a\nb: c\n": "builtins.ValueError",
            f"{begin}shop.errors.Order.Gone\n": "shop.errors.Order.Gone",
            "": "rowcall.JobFailed",
        }.items():
            attempt = Attempt(job_id=7, attempt=1, status="failed", claimed_at=NOW, traceback=text, error_code="A:B")
            result = result_of(job("add"), tasks.add, [attempt], "default")
            self.assertEqual(result.errors[0].exception_class_path, path)
            self.assertEqual(result.errors[0].traceback, text or "A:B: \n")
            self.assertEqual(result.status, TaskResultStatus.FAILED)

    def test_only_paths_of_tasks_are_followed(self) -> None:
        self.assertIs(task_of(job(f"{tasks.__name__}.add")), tasks.add)
        with self.assertRaisesMessage(SuspiciousOperation, "job 7 is not a call of a Django task"):
            task_of(job("subprocess.run"))

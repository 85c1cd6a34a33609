"""The backend of Django's Tasks framework."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.db import connection, transaction
from django.test import TestCase, TransactionTestCase, override_settings
from django.utils import timezone

from rowcall import InvalidArguments
from rowcall.app import queue_of
from rowcall.django import RowcallBackend, jobs, run_jobs
from rowcall.integrations.django.framework import (
    TaskResultDoesNotExist,
    TaskResultStatus,
    task_enqueued,
    task_finished,
    task_started,
)
from rowcall.overview.tasks import tasks_of
from tests.integrations.django.framework import InvalidTask, default_task_backend, task_backends
from tests.integrations.django.shop import tasks
from tests.integrations.django.shop.models import Order


class TestBackend(TestCase):
    def test_it_supports_everything(self) -> None:
        self.assertIsInstance(task_backends["default"], RowcallBackend)
        for what in ("defer", "async_task", "get_result", "priority"):
            self.assertTrue(getattr(default_task_backend, f"supports_{what}"), what)

    def test_a_result_is_read_again(self) -> None:
        result = tasks.add.using(priority=7, queue_name="sums").enqueue(1, two=2)
        self.assertEqual(tasks.add.get_result(result.id), result)
        self.assertEqual((result.status, result.args, result.kwargs), (TaskResultStatus.READY, [1], {"two": 2}))
        job = jobs.get(int(result.id))
        self.assertEqual((job.queue, job.priority, job.type), ("sums", 7, f"{tasks.__name__}.add"))
        run_jobs()
        result.refresh()
        self.assertEqual((result.status, result.return_value, result.attempts), (TaskResultStatus.SUCCESSFUL, 3, 1))
        self.assertTrue(result.enqueued_at <= result.started_at <= result.finished_at)

    def test_an_exception_is_an_error_of_the_result_and_is_not_retried(self) -> None:
        signalled: list[Any] = []

        def note(task_result: Any, **_: object) -> None:
            signalled.extend(task_result.errors)

        task_finished.connect(note)
        result = tasks.fail.enqueue("no stock")
        self.assertEqual(run_jobs(raise_errors=False).failed, 1)
        result.refresh()
        self.assertEqual(result.status, TaskResultStatus.FAILED)
        (error,) = result.errors
        for shown in (error, signalled[0]):
            self.assertEqual(shown.traceback.count("File "), 1, shown.traceback)  # no frames of Rowcall
        self.assertIs(error.exception_class, ValueError)
        self.assertTrue(error.traceback.endswith("ValueError: no stock\n"), error.traceback)
        with self.assertRaisesMessage(ValueError, "Task failed"):
            _ = result.return_value

    def test_a_list_of_tasks_shows_the_function(self) -> None:
        declared = {task.name.rpartition(".")[2]: task for task in tasks_of(queue_of(jobs), {})}
        self.assertEqual(
            (declared["fail"].function, declared["fail"].arguments), (f"{tasks.__name__}.fail", ["message"])
        )
        self.assertEqual(declared["describe"].arguments, ["word"])  # without the context
        self.assertEqual(declared["add_async"].arguments, ["*args"])

    def test_attempts_that_are_configured_are_retried(self) -> None:
        options = {"max_attempts": 2}
        with override_settings(TASKS={"default": {"BACKEND": "rowcall.django.RowcallBackend", "OPTIONS": options}}):
            result = tasks.fail_twice.enqueue()
            run_jobs(raise_errors=False)
            result.refresh()
            self.assertEqual((result.status, result.attempts), (TaskResultStatus.READY, 1))
            jobs.reschedule(int(result.id), run_at=timezone.now() - timedelta(seconds=1))
            run_jobs(raise_errors=False)
            result.refresh()
        self.assertEqual((result.status, len(result.errors)), (TaskResultStatus.FAILED, 2))

    def test_a_result_that_json_cannot_hold_fails(self) -> None:
        result = tasks.unserializable.enqueue()
        run_jobs(raise_errors=False)
        result.refresh()
        self.assertIs(result.errors[0].exception_class, TypeError)

    def test_the_context_has_the_result(self) -> None:
        result = tasks.describe.enqueue("word")
        run_jobs()
        result.refresh()
        self.assertEqual(result.return_value, [result.id, 1, "describe", "word"])

    def test_run_after(self) -> None:
        later = timezone.now().replace(microsecond=0) + timedelta(hours=1)
        result = tasks.add.using(run_after=later).enqueue(1)
        self.assertEqual(run_jobs().total, 0)
        self.assertEqual(jobs.get(int(result.id)).run_at, later)
        self.assertEqual(tasks.add.get_result(result.id).task.run_after, later)

    def test_a_cancelled_job_has_failed(self) -> None:
        result = tasks.add.enqueue(1)
        jobs.cancel(int(result.id), reason="sold out")
        result.refresh()
        self.assertEqual(result.status, TaskResultStatus.FAILED)
        self.assertEqual(result.errors[0].exception_class_path, "rowcall.JobCancelled")
        self.assertIn("sold out", result.errors[0].traceback)

    def test_signals(self) -> None:
        seen: list[tuple[str, str]] = []

        def note(signal: Any, task_result: Any, **_: object) -> None:
            name = {task_enqueued: "enqueued", task_started: "started", task_finished: "finished"}[signal]
            seen.append((name, str(task_result.status)))

        for signal in (task_enqueued, task_started, task_finished):
            signal.connect(note)
            self.addCleanup(signal.disconnect, note)
        tasks.add.enqueue(1)
        tasks.add_async.enqueue(1)
        run_jobs()
        once = [("enqueued", "READY")], [("started", "RUNNING"), ("finished", "SUCCESSFUL")]
        self.assertEqual(seen, [*once[0], *once[0], *once[1], *once[1]])

    async def test_async_code(self) -> None:
        result = await tasks.add_async.aenqueue(1, 2)
        self.assertEqual(await tasks.add_async.aget_result(result.id), result)
        job = await tasks.confirm.aenqueue(7)
        self.assertEqual((await jobs.aget(job.id)).payload, {"order_id": 7})

    def test_wrong_use(self) -> None:
        for missing in ("1000000", "no number", "-1", "", str(10**23), "9" * 5000):
            with self.assertRaises(TaskResultDoesNotExist):
                default_task_backend.get_result(missing)
        with self.assertRaisesMessage(InvalidArguments, "missing a required argument: 'message'"):
            tasks.fail.enqueue()
        with self.assertRaisesMessage(TypeError, "Unsupported type"):
            tasks.add.enqueue(datetime.now())
        with self.assertRaises(InvalidTask):
            tasks.add.using(priority=101)
        self.assertEqual(len(jobs.list()), 0)

    @override_settings(USE_TZ=False)
    def test_naive_times(self) -> None:
        result = tasks.add.using(run_after=datetime.now() + timedelta(hours=1)).enqueue(1)
        self.assertIsNone(result.enqueued_at.tzinfo)
        self.assertGreater(jobs.get(int(result.id)).run_at - jobs.get(int(result.id)).created_at, timedelta(minutes=50))


class TestTransactions(TransactionTestCase):
    def test_a_job_joins_the_surrounding_block(self) -> None:
        with self.assertRaises(KeyError), transaction.atomic():
            order = Order.objects.create(item="book")
            tasks.confirm.enqueue(order.id)
            tasks.add.enqueue(1)
            raise KeyError
        self.assertEqual((len(jobs.list()), Order.objects.count()), (0, 0))
        with transaction.atomic():
            tasks.confirm.enqueue(Order.objects.create(item="book").id)
        run_jobs()
        self.assertEqual(Order.objects.get().confirmed, 1)

    def test_tests_begin_with_an_empty_queue(self) -> None:
        self.assertEqual(len(jobs.list()), 0)
        tasks.add.enqueue(1)
        self.assertFalse(connection.in_atomic_block)

    test_the_next_test_begins_with_an_empty_queue = test_tests_begin_with_an_empty_queue

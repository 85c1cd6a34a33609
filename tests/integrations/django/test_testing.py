"""Running jobs in tests."""

from __future__ import annotations

from unittest import mock

from django.core import mail
from django.test import TestCase

from rowcall import InvalidOption
from rowcall.django import immediate, jobs, run_jobs
from rowcall.testing import assert_enqueued, assert_not_enqueued
from tests.integrations.django.shop import tasks
from tests.integrations.django.shop.models import Order


class TestRunJobs(TestCase):
    def test_handlers_see_the_transaction_of_the_test(self) -> None:
        order = Order.objects.create(item="book")
        job = tasks.confirm.enqueue(order.id)
        self.assertEqual(run_jobs().succeeded, 1)
        order.refresh_from_db()
        self.assertEqual((order.confirmed, jobs.get(job.id).result), (1, 1))

    def test_async_handlers_see_it_too(self) -> None:
        Order.objects.create(item="book")
        job = tasks.count_orders.enqueue()
        run_jobs()
        self.assertEqual(jobs.get(job.id).result, 1)

    def test_a_job_that_a_handler_enqueues_runs_too(self) -> None:
        tasks.confirm_later.enqueue(Order.objects.create(item="book").id)
        self.assertEqual(run_jobs().succeeded, 2)
        self.assertEqual(Order.objects.get().confirmed, 1)

    def test_an_exception_is_raised_after_it_is_settled(self) -> None:
        job = tasks.order_twice.enqueue()
        with self.assertRaisesMessage(Exception, self.broken_rule):
            run_jobs()
        self.assertEqual(jobs.get(job.id).status, "scheduled")  # it has attempts left
        self.assertEqual(Order.objects.count(), 0)  # the test's transaction is still usable

    @property
    def broken_rule(self) -> str:
        from django.db import connection

        return {"sqlite": "UNIQUE", "postgresql": "order_pkey", "mysql": "PRIMARY"}[connection.vendor]

    def test_outside_of_tests_it_is_refused(self) -> None:
        with mock.patch.object(mail, "outbox", create=True):
            del mail.outbox
            with self.assertRaisesMessage(InvalidOption, "call jobs.drain()"):
                run_jobs()

    def test_assertions(self) -> None:
        tasks.add.enqueue(1, two=2)
        tasks.confirm.enqueue(7)
        assert_enqueued(tasks.add, args=(1,), two=2)
        assert_enqueued("confirm", order_id=7)
        assert_not_enqueued(tasks.add, two=1)
        with self.assertRaisesMessage(AssertionError, "no job was enqueued as"):
            assert_enqueued(tasks.fail, message="no stock")
        with self.assertRaisesMessage(InvalidOption, "has no argument 'text'; it has message"):
            assert_enqueued(tasks.fail, text="no stock")

    def test_a_completed_job(self) -> None:
        job = tasks.complete_itself.enqueue()
        self.assertEqual(run_jobs().succeeded, 1)
        self.assertEqual((jobs.get(job.id).status, jobs.get(job.id).result), ("succeeded", "done"))


class TestImmediate(TestCase):
    @immediate()
    def test_jobs_run_where_they_are_enqueued(self) -> None:
        order = Order.objects.create(item="book")
        self.assertEqual(tasks.confirm.enqueue(order.id).result, 1)
        result = tasks.add.enqueue(1, 2)
        self.assertEqual((result.return_value, result.attempts), (3, 1))
        with self.assertRaisesMessage(ValueError, "no stock"):
            tasks.fail.enqueue("no stock")
        with immediate(raise_errors=False):
            self.assertEqual(len(tasks.fail.enqueue("no stock").errors), 1)
        self.assertEqual(tasks.confirm.using(delay=60).enqueue(order.id).status, "scheduled")

    async def test_async_code(self) -> None:
        with immediate():
            self.assertEqual((await tasks.add_async.aenqueue(1, 2)).return_value, 3)
            self.assertEqual((await tasks.count_orders.aenqueue()).result, 0)

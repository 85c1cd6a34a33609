"""The queue on Django's own connection, in tests."""

from __future__ import annotations

import sqlite3

from django.db import connection, transaction
from django.test import TestCase

from rowcall import InvalidOption, JobNotFound
from rowcall.django import jobs, run_jobs
from tests.integrations.django.shop import tasks
from tests.integrations.django.shop.models import Order


class TestQueue(TestCase):
    def test_calls_see_the_transaction_of_the_test(self) -> None:
        job = tasks.confirm.enqueue(1)
        self.assertEqual(jobs.get(job.id).status, "pending")
        self.assertEqual([one.event for one in jobs.timeline(job.id)], ["ENQUEUED"])
        self.assertEqual(jobs.stats().total, 1)
        self.assertEqual(len(tasks.confirm.enqueue_many([{"order_id": 2}, {"order_id": 3}])), 2)
        self.assertEqual(jobs.cancel(status="pending"), 3)
        jobs.delete(job.id)
        with self.assertRaises(JobNotFound):
            jobs.get(job.id)

    def test_a_connection_may_be_passed(self) -> None:
        for given in ("default", connection):
            tasks.confirm.using(connection=given).enqueue(1)
        self.assertEqual(len(jobs.list()), 2)
        with self.assertRaisesMessage(InvalidOption, "Django's connection 'default'"):
            tasks.confirm.using(connection=sqlite3.connect(":memory:")).enqueue(1)

    def test_keys_and_chains(self) -> None:
        first = tasks.confirm.using(key="order-1").enqueue(1)
        self.assertEqual(tasks.confirm.using(key="order-1").enqueue(1).id, first.id)
        jobs.start_chain([tasks.confirm.bind(1), tasks.confirm.bind(2)])
        self.assertEqual(run_jobs().succeeded, 3)

    def test_a_block_of_the_queue(self) -> None:
        with self.assertRaises(KeyError), jobs.transaction():
            tasks.confirm.enqueue(1)
            raise KeyError
        with jobs.transaction():
            tasks.confirm.enqueue(1)
        self.assertEqual(len(jobs.list()), 1)

    def test_a_rolled_back_block_takes_its_jobs_with_it(self) -> None:
        with self.assertRaises(KeyError), transaction.atomic():
            tasks.confirm.enqueue(1)
            raise KeyError
        self.assertEqual(len(jobs.list()), 0)

    def test_a_worker_is_refused(self) -> None:
        with self.assertRaisesMessage(InvalidOption, "run_jobs()"):
            jobs.drain()

    def test_large_payloads(self) -> None:
        result = tasks.measure.enqueue("x" * 300_000)
        self.assertEqual(Order.objects.count(), 0)
        run_jobs()
        result.refresh()
        self.assertEqual(result.return_value, 300_000)

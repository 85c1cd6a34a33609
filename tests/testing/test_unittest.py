"""Test cases of `unittest`."""

from __future__ import annotations

import unittest

from rowcall.testing import RowcallTestCase, assert_enqueued, assert_not_enqueued
from tests.testing.queues import jobs, send_email


class Clean(RowcallTestCase):
    rowcall_apps = (jobs,)

    def test_the_clock_runs_what_becomes_due(self) -> None:
        assert_not_enqueued(send_email)
        job = send_email.using(delay=60).enqueue("a")
        self.clock.advance("1 minute")
        assert jobs.get(job).status == "succeeded"


class Async(RowcallTestCase, unittest.IsolatedAsyncioTestCase):
    rowcall_apps = (jobs,)
    rowcall_inline = True

    async def test_jobs_run_at_once(self) -> None:
        assert (await send_email.aenqueue("b")).status == "succeeded"
        assert len(assert_enqueued(send_email)) == 1

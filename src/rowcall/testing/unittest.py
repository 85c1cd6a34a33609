"""`unittest`: a test case whose queues are clean in each test."""

from __future__ import annotations

import unittest
from collections.abc import Sequence

from rowcall.app import Rowcall
from rowcall.testing.clean_queue import IN_MEMORY, clean_queue, queues_in_modules
from rowcall.testing.inline import inline


class RowcallTestCase(unittest.TestCase):
    """Each test has an empty queue in memory and a fake clock, `self.clock`. Works with `IsolatedAsyncioTestCase`, too.

        class CheckoutTest(RowcallTestCase):
            rowcall_apps = [jobs]

            def test_mail(self):
                checkout(order)
                assert_enqueued(send_email, to="a@example.com")
                self.clock.advance("1 day")

    Attributes:
        rowcall_apps: the queues; by default every `Rowcall` in a module's variables.
        rowcall_url: where they are; default in memory. All jobs there are deleted.
        rowcall_inline: run jobs before `enqueue` returns; default false.
    """

    rowcall_apps: Sequence[Rowcall] | None = None
    rowcall_url = IN_MEMORY
    rowcall_inline = False

    def setUp(self) -> None:
        super().setUp()
        apps = queues_in_modules() if self.rowcall_apps is None else self.rowcall_apps
        self.clock = self.enterContext(clean_queue(*apps, url=self.rowcall_url))
        if self.rowcall_inline:
            self.enterContext(inline(*apps))

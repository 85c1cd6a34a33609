"""The queue of the project outside of tests: it joins the blocks around its calls."""

from __future__ import annotations

from unittest import mock

from asgiref.sync import async_to_sync
from django.core import mail
from django.db import connection, transaction
from django.test import TransactionTestCase

from rowcall.integrations.django.queue import AtomicBlocks


class TestSurroundingBlock(TransactionTestCase):
    def setUp(self) -> None:
        patch = mock.patch.object(mail, "outbox", create=True)
        patch.start()
        self.addCleanup(patch.stop)
        del mail.outbox  # as outside of tests

    def test_it_is_found(self) -> None:
        blocks = AtomicBlocks()
        self.assertIsNone(blocks.find())
        with transaction.atomic():
            self.assertEqual(blocks.find(), connection)
        self.assertIsNone(blocks.find())

    def test_it_is_found_from_async_code_inside_it(self) -> None:
        blocks = AtomicBlocks()
        with transaction.atomic():
            self.assertEqual(async_to_sync(blocks.afind)(), connection)
        self.assertIsNone(async_to_sync(blocks.afind)())

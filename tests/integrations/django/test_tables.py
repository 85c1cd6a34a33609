"""The tables, made by Django's migrations."""

from __future__ import annotations

from io import StringIO

from django.core.management import call_command
from django.db import connection
from django.test import TransactionTestCase

from rowcall.django import jobs
from rowcall.integrations.django.tables import after_migrate
from tests.integrations.django.shop import tasks


class TestMigrations(TransactionTestCase):
    def test_models_and_migrations_agree(self) -> None:
        call_command("makemigrations", "--check", "--dry-run", "rowcall", stdout=StringIO())

    def test_either_may_come_first(self) -> None:
        call_command("migrate", "rowcall", "zero", "--fake", verbosity=0)
        self.assertEqual(jobs.migrate()[0], jobs.migrate()[1])
        call_command("migrate", verbosity=0)  # the tables are there already
        self.assertIn("rowcall_job", connection.introspection.table_names())

    def test_another_database_gets_no_tables(self) -> None:
        tasks.add.enqueue(1)
        after_migrate(using="other")
        self.assertEqual(len(jobs.list()), 1)
        after_migrate(using="default")  # as at the end of a test
        self.assertEqual(len(jobs.list()), 0)

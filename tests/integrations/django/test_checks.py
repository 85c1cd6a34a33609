"""What `manage.py check` finds."""

from __future__ import annotations

from typing import Any
from unittest import mock

from django.core import mail
from django.core.exceptions import ImproperlyConfigured
from django.db import connection
from django.test import SimpleTestCase, override_settings

from rowcall import Rowcall
from rowcall.integrations.django import checks
from rowcall.integrations.django.apps import RowcallConfig
from rowcall.integrations.django.backend import RowcallBackend
from rowcall.integrations.django.site import queue_url


def found() -> list[str]:
    return [str(message.id) for message in checks.check_rowcall()]


def in_settings(**changes: Any) -> Any:
    return mock.patch.dict(connection.settings_dict, changes)


class TestChecks(SimpleTestCase):
    def test_the_project_of_these_tests_is_right(self) -> None:
        self.assertEqual(found(), [])

    def test_databases(self) -> None:
        with override_settings(ROWCALL={"DATABASE": "jobs"}):
            self.assertEqual(found(), ["rowcall.E002"])
        with override_settings(ROWCALL={"DATABSE": "jobs"}):
            self.assertEqual(found(), ["rowcall.E003"])

    def test_the_app_of_the_worker(self) -> None:
        for app in ("shop.nothing:jobs", "rowcall.django:nothing", "rowcall.django", "os:path"):
            with override_settings(ROWCALL={"APP": app}):
                self.assertEqual(found(), ["rowcall.E004"], app)

    def test_sqlite_without_immediate(self) -> None:
        if connection.vendor == "sqlite":
            with in_settings(OPTIONS={}):
                self.assertEqual(found(), ["rowcall.W001"])

    def test_connections_that_are_kept(self) -> None:
        if connection.vendor == "postgresql":
            with in_settings(CONN_MAX_AGE=None):
                self.assertEqual(found(), ["rowcall.W002"])
            with in_settings(CONN_MAX_AGE=60, CONN_HEALTH_CHECKS=True):
                self.assertEqual(found(), [])
            with mock.patch("importlib.util.find_spec", return_value=None):
                self.assertEqual(found(), ["rowcall.E005", "rowcall.E005"])

    def test_a_file_in_memory(self) -> None:
        if connection.vendor == "sqlite":
            with mock.patch.object(mail, "outbox", create=True):
                del mail.outbox  # as outside of tests
                self.assertEqual(found(), ["rowcall.E003"])

    def test_a_backend_without_the_app(self) -> None:
        backend = RowcallBackend("default", {})
        self.assertEqual(list(backend.check()), [])
        with override_settings(INSTALLED_APPS=[]):
            self.assertEqual([message.id for message in backend.check()], ["rowcall.E001"])

    @override_settings(ROWCALL={"OPTIONS": {"table_prefix": "9"}})
    def test_wrong_options_stop_the_start(self) -> None:
        import rowcall.integrations.django as module

        new = mock.patch("rowcall.integrations.django.apps.jobs", Rowcall(queue_url))
        with new, self.assertRaisesMessage(ImproperlyConfigured, "ROWCALL: table_prefix must be"):
            RowcallConfig("rowcall.integrations.django", module).ready()

"""`manage.py rowcall`."""

from __future__ import annotations

import importlib.util
from contextlib import redirect_stdout
from io import StringIO
from unittest import mock

from django.core.management import call_command
from django.test import SimpleTestCase, override_settings

from rowcall.integrations.django.management.commands.rowcall import Command, _own, with_reload


class TestCommand(SimpleTestCase):
    def test_it_has_the_commands_of_rowcall(self) -> None:
        printed = StringIO()
        with redirect_stdout(printed), self.assertRaises(SystemExit) as ended:
            Command().run_from_argv(["manage.py", "rowcall", "--settings=shop", "work", "--help"])
        self.assertIn("Usage: rowcall work", printed.getvalue())
        self.assertEqual(ended.exception.code, 0)
        with redirect_stdout(StringIO()), self.assertRaises(SystemExit):
            call_command("rowcall", "--version")

    def test_options_of_django_are_its_own(self) -> None:
        self.assertEqual(_own(["jobs", "--settings", "shop", "--json"]), ["jobs", "--json"])
        self.assertEqual(_own(["--pythonpath=a", "jobs", "--queue", "mail"]), ["jobs", "--queue", "mail"])

    def test_it_restarts_after_changes_in_development(self) -> None:
        self.assertEqual(with_reload(["work"]), ["work"])
        installed = mock.patch.object(importlib.util, "find_spec", return_value=importlib.util)
        with override_settings(DEBUG=True), installed:
            self.assertEqual(with_reload(["work"]), ["work", "--reload"])
            self.assertEqual(with_reload(["work", "--noreload"]), ["work"])
            self.assertEqual(with_reload(["work", "--reload"]), ["work", "--reload"])
            with mock.patch.object(importlib.util, "find_spec", return_value=None):
                self.assertEqual(with_reload(["work"]), ["work"])

"""The app, under the name that users install."""

from __future__ import annotations

from django.apps import apps
from django.test import SimpleTestCase

import rowcall.django
from rowcall.integrations.django.apps import RowcallConfig


class TestApp(SimpleTestCase):
    def test_it_is_installed_as_rowcall_django(self) -> None:
        self.assertIsInstance(apps.get_app_config("rowcall"), RowcallConfig)

    def test_the_names_for_users(self) -> None:
        for name in rowcall.django.__all__:
            self.assertIsNotNone(getattr(rowcall.django, name))
        with self.assertRaisesMessage(AttributeError, "has no attribute 'nothing'"):
            _ = rowcall.django.nothing

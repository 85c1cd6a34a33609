"""What the settings say about the queue."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest import mock

from django.core import mail
from django.db import connections
from django.test import SimpleTestCase, override_settings

from rowcall import InvalidOption
from rowcall.integrations.django import site


def url_for(**settings: Any) -> str | Path:
    settings = {"USER": "", "PASSWORD": "", "HOST": "", "PORT": "", "OPTIONS": {}, **settings}
    made = connections.configure_settings({"default": settings})
    with mock.patch.object(connections, "settings", made), mock.patch.object(mail, "outbox", create=True):
        del mail.outbox  # as outside of tests
        connection = connections.create_connection("default")
        with mock.patch.object(site, "connections", {"default": connection}):
            return site.queue_url()


class TestUrl(SimpleTestCase):
    engine = "django.db.backends.postgresql"

    def test_a_file(self) -> None:
        self.assertEqual(url_for(ENGINE="django.db.backends.sqlite3", NAME=Path("shop.db")), Path("shop.db"))
        with self.assertRaisesMessage(InvalidOption, "must name a file, but DATABASES['default'] has ':memory:'"):
            url_for(ENGINE="django.db.backends.sqlite3", NAME=":memory:")

    def test_a_server(self) -> None:
        given = {"NAME": "shop", "USER": "ann", "PASSWORD": "p@:/?#", "HOST": "db-1", "PORT": "5433"}
        self.assertEqual(url_for(ENGINE=self.engine, **given), "postgresql://ann:p%40%3A%2F%3F%23@db-1:5433/shop")

    def test_options_of_the_server(self) -> None:
        options = {"sslmode": "require", "pool": False, "isolation_level": 2, "assume_role": "owner"}
        found = url_for(ENGINE=self.engine, NAME="shop", HOST="/run/postgresql", OPTIONS=options)
        self.assertEqual(found, "postgresql:///shop?sslmode=require&options=-c%20role%3Downer&host=%2Frun%2Fpostgresql")
        self.assertEqual(
            url_for(ENGINE=self.engine, NAME="", OPTIONS={"service": "shop"}), "postgresql:///?service=shop"
        )

    def test_mariadb(self) -> None:
        given = {"NAME": "shop", "USER": "ann", "PASSWORD": "p@:/?#", "HOST": "db-1", "PORT": "3307"}
        engine, files = "django.db.backends.mysql", {"ca": "/etc/ca.pem", "check_hostname": False}
        self.assertEqual(
            url_for(ENGINE=engine, **given, OPTIONS={"ssl": files, "isolation_level": "read committed"}),
            "mysql://ann:p%40%3A%2F%3F%23@db-1:3307/shop?ssl_ca=%2Fetc%2Fca.pem",
        )
        self.assertEqual(
            url_for(ENGINE=engine, NAME="shop", HOST="/run/mysqld/mysqld.sock"),
            "mysql:///shop?unix_socket=%2Frun%2Fmysqld%2Fmysqld.sock",
        )

    def test_another_database(self) -> None:
        with self.assertRaisesMessage(InvalidOption, "must be SQLite, PostgreSQL, MariaDB or MySQL"):
            url_for(ENGINE="django.db.backends.dummy", NAME="shop")

    @override_settings(ROWCALL={"DATABASES": "default"})
    def test_unknown_settings_are_refused(self) -> None:
        with self.assertRaisesMessage(InvalidOption, "did you mean 'DATABASE'?"):
            site.alias()

"""A Django project for the tests. `DATABASE_URL` says where its database is: a file by default."""

import os
from typing import Any

from psycopg.conninfo import conninfo_to_dict

DATABASES: dict[str, dict[str, Any]] = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": os.environ.get("DATABASE_FILE", "site.db"),
        "OPTIONS": {"transaction_mode": "IMMEDIATE"},
    }
}
if "DATABASE_URL" in os.environ:
    server = conninfo_to_dict(os.environ["DATABASE_URL"])
    name = server.pop("dbname")
    DATABASES["default"] = {"ENGINE": "django.db.backends.postgresql", "NAME": name, "OPTIONS": server}

INSTALLED_APPS = ["rowcall.django", "tests.integrations.django.shop"]
TASKS = {"default": {"BACKEND": "rowcall.django.RowcallBackend", "QUEUES": []}}
SECRET_KEY = "only for the tests"
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

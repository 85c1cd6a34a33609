"""The settings of the Django project. A SQLite file needs `IMMEDIATE` transactions for its worker, as its docs say."""

from __future__ import annotations

import os

SECRET_KEY = "only for a benchmark"
INSTALLED_APPS = ["django_tasks", "django_tasks_db"]
TASKS = {"default": {"BACKEND": "django_tasks_db.DatabaseBackend", "QUEUES": ["default"]}}
USE_TZ = True
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": os.environ["FIELD_URL"].removeprefix("sqlite:///"),
        "OPTIONS": {"transaction_mode": "IMMEDIATE"},
    }
}

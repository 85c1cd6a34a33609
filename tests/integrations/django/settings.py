"""A Django project for the tests. `DATABASE_URL` says where its database is: a file by default."""

import os
from typing import Any
from urllib.parse import urlsplit

import pymysql
from psycopg.conninfo import conninfo_to_dict

pymysql.install_as_MySQLdb()
DATABASES: dict[str, dict[str, Any]] = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": os.environ.get("DATABASE_FILE", "site.db"),
        "OPTIONS": {"transaction_mode": "IMMEDIATE"},
    }
}
if os.environ.get("DATABASE_URL", "").startswith("mysql:"):
    url = urlsplit(os.environ["DATABASE_URL"])
    DATABASES["default"] = {
        "ENGINE": "django.db.backends.mysql",
        "NAME": url.path[1:],
        "USER": url.username,
        "HOST": url.hostname,
        "PORT": url.port,
        "TEST": {"CHARSET": "utf8mb4"},
    }
elif "DATABASE_URL" in os.environ:
    server = conninfo_to_dict(os.environ["DATABASE_URL"])
    name = server.pop("dbname")
    DATABASES["default"] = {"ENGINE": "django.db.backends.postgresql", "NAME": name, "OPTIONS": server}

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.sessions",
    "rowcall.django",
    "tests.integrations.django.shop",
]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]
ROOT_URLCONF = "tests.integrations.django.urls"
STATIC_URL = "static/"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
TASKS = {"default": {"BACKEND": "rowcall.django.RowcallBackend", "QUEUES": []}}
SECRET_KEY = "only for the tests"
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

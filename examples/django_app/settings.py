import os
from urllib.parse import urlsplit

DATABASE_URL = os.environ.get("DATABASE_URL", "sqlite:///app.db")  # or postgresql://… or mysql://…
DATABASES: dict[str, dict[str, object]]

if DATABASE_URL.startswith("sqlite:///"):
    DATABASES = {
        "default": {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": DATABASE_URL.removeprefix("sqlite:///"),
            "OPTIONS": {"transaction_mode": "IMMEDIATE"},  # otherwise enqueue may fail in a view that reads first
        }
    }
elif DATABASE_URL.startswith("mysql://"):
    import pymysql

    pymysql.install_as_MySQLdb()  # not needed with mysqlclient
    url = urlsplit(DATABASE_URL)
    DATABASES = {
        "default": {
            "ENGINE": "django.db.backends.mysql",
            "NAME": url.path[1:],
            "USER": url.username,
            "PASSWORD": url.password or "",
            "HOST": url.hostname,
            "PORT": url.port or 3306,
        }
    }
else:
    from psycopg.conninfo import conninfo_to_dict

    server = conninfo_to_dict(DATABASE_URL)
    DATABASES = {
        "default": {"ENGINE": "django.db.backends.postgresql", "NAME": server.pop("dbname"), "OPTIONS": server}
    }

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.sessions",
    "django.contrib.staticfiles",
    "rowcall.django",
    "shop",
]
TASKS = {"default": {"BACKEND": "rowcall.django.RowcallBackend"}}  # for @task of Django
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
ROOT_URLCONF = "shop.urls"
STATIC_URL = "static/"
SECRET_KEY = "only for this example"
DEBUG = True
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

MAIL_SECONDS = float(os.environ.get("MAIL_SECONDS", "0"))  # how long the mail server takes

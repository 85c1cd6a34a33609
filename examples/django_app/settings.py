import os

DATABASE_URL = os.environ.get("DATABASE_URL", "sqlite:///app.db")  # or postgresql://user@host/database
DATABASES: dict[str, dict[str, object]]

if DATABASE_URL.startswith("sqlite:///"):
    DATABASES = {
        "default": {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": DATABASE_URL.removeprefix("sqlite:///"),
            "OPTIONS": {"transaction_mode": "IMMEDIATE"},  # otherwise enqueue may fail in a view that reads first
        }
    }
else:
    from psycopg.conninfo import conninfo_to_dict

    server = conninfo_to_dict(DATABASE_URL)
    DATABASES = {
        "default": {"ENGINE": "django.db.backends.postgresql", "NAME": server.pop("dbname"), "OPTIONS": server}
    }

INSTALLED_APPS = ["users"]
ROOT_URLCONF = "users.urls"
SECRET_KEY = "only for this example"
DEBUG = True
USE_TZ = True

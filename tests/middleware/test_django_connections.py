"""Django's database connections in handlers. Django can be set up once per process, so this is one."""

from __future__ import annotations

from pathlib import Path

from rowcall.testing.process import PythonProcess

PROGRAM = """
import django
from asgiref.sync import sync_to_async
from django.conf import settings

settings.configure(DATABASES={"default": {
    "ENGINE": "django.db.backends.sqlite3", "NAME": "site.db", "CONN_MAX_AGE": 0,
}})
django.setup()
from django.db import connection
from rowcall import Rowcall
from rowcall.middleware import close_django_connections

jobs = Rowcall("sqlite:///app.db")
jobs.middleware(close_django_connections())
opened = []

def query():
    opened.append(connection.connection is None)
    with connection.cursor() as cursor:
        cursor.execute("select 1")

@jobs.task
def in_a_thread() -> None:
    query()

@jobs.task
async def on_the_loop() -> None:
    await sync_to_async(query)()

for task in (in_a_thread, on_the_loop):
    task.enqueue()
    task.enqueue()
assert jobs.drain(concurrency=1).succeeded == 4
print(opened)
"""


def test_connections_do_not_outlive_an_attempt(tmp_path: Path) -> None:
    with PythonProcess("-c", PROGRAM, cwd=str(tmp_path)) as process:
        assert process.wait() == 0, process.output
        assert "[True, True, True, True]" in process.output

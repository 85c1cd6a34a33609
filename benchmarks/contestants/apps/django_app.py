"""django-tasks-db: `./manage.py db_worker`, here as `python -m django db_worker`. It has no call for many tasks."""

from __future__ import annotations

import django

django.setup()

from django.core.management import call_command  # noqa: E402
from django_tasks import task  # noqa: E402

from benchmarks.contestants.apps.handlers import handle  # noqa: E402


@task()
def work(what: str, number: int) -> None:
    handle(what, number)


def prepare() -> None:
    call_command("migrate", verbosity=0)


def enqueue(what: str, number: int) -> None:
    work.enqueue(what, number)

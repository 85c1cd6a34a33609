"""`jobs`: the queue of a Django project."""

from __future__ import annotations

from django.db import connections

from rowcall.app import Rowcall, queue_of
from rowcall.integrations.django.connection import in_thread, open_for_django
from rowcall.integrations.django.site import alias, is_testing, queue_url
from rowcall.middleware import close_django_connections


class AtomicBlocks:
    """Joins the `atomic()` block that the calling code is in, as Django's own models do."""

    def find(self) -> object:
        if is_testing():  # all calls use Django's connection there
            return None
        connection = connections[alias()]
        return connection if connection.in_atomic_block else None

    async def afind(self) -> object:
        """Ask in Django's thread for sync code: an event loop has no blocks, but the code around it may have."""
        return await in_thread(self.find)


jobs = Rowcall(queue_url)
"""The queue in the database that `settings.ROWCALL` names; by default, in `DATABASES["default"]`.

    from rowcall.django import jobs

    @jobs.task(max_attempts=3)
    def send_email(to: str) -> None: ...

    send_email.enqueue("a@example.com")      # part of the surrounding atomic() block, if there is one
"""

queue_of(jobs).backend.surrounding = AtomicBlocks()
queue_of(jobs).backend.open_database = open_for_django
jobs.middleware(close_django_connections())

"""A process of the project outside of tests: transactions, the dashboard, and a worker whose connection is cut."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from typing import Any

import django
import httpx
from asgiref.sync import async_to_sync

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.integrations.django.settings")
django.setup()

from django.conf import settings  # noqa: E402
from django.contrib.auth.models import User  # noqa: E402
from django.core.asgi import get_asgi_application  # noqa: E402
from django.core.management import call_command  # noqa: E402
from django.db import connection, transaction  # noqa: E402
from django.test import Client  # noqa: E402

from rowcall import Backoff, Job  # noqa: E402
from rowcall.django import jobs  # noqa: E402
from tests.integrations.django.shop import tasks  # noqa: E402
from tests.integrations.django.shop.models import Order  # noqa: E402

OWN_SESSION = {"postgresql": "select pg_backend_pid()", "mysql": "select connection_id()"}
CUT = {"postgresql": "select pg_terminate_backend(%s)", "mysql": "kill connection %s"}


class Undo(Exception):
    pass


def enqueue_in_every_way() -> None:
    tasks.add.enqueue(1)
    tasks.confirm.enqueue(1)
    tasks.confirm.enqueue_many([{"order_id": 2}, {"order_id": 3}])
    jobs.enqueue("confirm", {"order_id": 4}, key="order-4")
    jobs.start_chain([tasks.confirm.bind(5), tasks.confirm.bind(6)])
    async_to_sync(tasks.confirm.aenqueue)(7)
    async_to_sync(tasks.add.aenqueue)(8)


def check_transactions() -> None:
    try:
        with transaction.atomic():
            Order.objects.create(item="book")
            result = tasks.add.enqueue(0)
            assert tasks.add.get_result(result.id) == result, "it is not seen where it was written"
            jobs.cancel(int(result.id))
            enqueue_in_every_way()
            assert len(jobs.list()) == 10, jobs.list()
            raise Undo
    except Undo:
        pass
    assert (len(jobs.list()), Order.objects.count()) == (0, 0), jobs.list()
    with transaction.atomic():
        enqueue_in_every_way()
    assert len(jobs.list()) == 9, jobs.list()
    enqueue_in_every_way()  # outside of a block; the key exists
    assert len(jobs.list()) == 17, jobs.list()
    assert jobs.drain().failed == 0
    print("transactions are joined", flush=True)


def check_dashboard() -> None:
    """Requests are atomic, as `ATOMIC_REQUESTS` says; the dashboard writes on Rowcall's connections."""
    settings.ALLOWED_HOSTS = ["testserver"]
    client, job = Client(), tasks.confirm.using(delay=3600).enqueue(1)
    assert client.get("/ops/jobs/").headers["location"] == "/admin/login/?next=/ops/jobs/"
    client.force_login(User.objects.create_superuser("ann"))
    connection.settings_dict["ATOMIC_REQUESTS"] = True
    page = client.get(f"/ops/jobs/jobs/{job.id}").text
    csrf = page.partition('name="csrf" value="')[2].partition('"')[0]
    form = "application/x-www-form-urlencoded"
    answer = client.post(f"/ops/jobs/jobs/{job.id}/cancel", f"csrf={csrf}", content_type=form)
    connection.settings_dict["ATOMIC_REQUESTS"] = False
    assert (answer.status_code, jobs.get(job).status) == (303, "cancelled"), answer.text
    assert jobs.timeline(job)[-1].actor == "ann"
    asyncio.run(check_dashboard_of_asgi(job.id, {name: cookie.value for name, cookie in client.cookies.items()}))
    print("staff use the dashboard", flush=True)


async def check_dashboard_of_asgi(job_id: int, cookies: dict[str, str]) -> None:
    """The thread of a request waits for the dashboard, which must not wait for that thread."""
    server: Any = httpx.ASGITransport(get_asgi_application())
    async with httpx.AsyncClient(transport=server, base_url="http://testserver", cookies=cookies) as client:
        for path in ("", "jobs", f"jobs/{job_id}"):
            page = await client.get(f"/ops/jobs/{path}")
            assert page.status_code == 200, page.text

        async def endless() -> AsyncIterator[bytes]:
            for _ in range(100):
                yield b"x" * 65_536

        refused = await client.post("/ops/jobs/api/push/x", content=endless())
        assert refused.status_code == 413, refused.text


@jobs.task(max_attempts=2, retry=Backoff.constant(0))
def session() -> int:
    Order.objects.count()
    with connection.cursor() as cursor:
        cursor.execute(OWN_SESSION[connection.vendor])
        return int(cursor.fetchone()[0])


def check_cut_connection() -> None:
    """The connection of the handler's thread is kept, and cut by the server."""
    connection.settings_dict["CONN_MAX_AGE"] = None
    with jobs.worker(concurrency=1):
        first = run()
        assert jobs.get(run()).result == jobs.get(first).result, "the connection was not kept"
        with connection.cursor() as cursor:
            cursor.execute(CUT[connection.vendor], [jobs.get(first).result])
        another = jobs.get(run())
        assert (another.attempt, another.result != jobs.get(first).result) == (1, True), another
    print("the worker continues with another connection", flush=True)


def run() -> Job[int]:
    job = session.enqueue()
    jobs.result(job, timeout=30)
    return job


call_command("migrate", run_syncdb=True, verbosity=0)
check_transactions()
check_dashboard()
if connection.vendor in CUT:
    check_cut_connection()
connection.close()
jobs.close()

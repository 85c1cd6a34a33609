"""Each example, started and called as its README says, on a file and on servers."""

from __future__ import annotations

import ast
import os
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from zlib import crc32

import pytest

from rowcall import Rowcall
from rowcall.testing.mysql import find_server
from tests.examples.site import EXAMPLES, PATIENCE_SECONDS, Ask, Example, Site
from tests.mysql_server import ALL
from tests.support import PythonProcess, eventually
from tests.wheel import built_wheel, unpacked

pytestmark = [pytest.mark.slow, pytest.mark.concurrency, pytest.mark.no_tables]

DATABASES = ["sqlite", "postgresql", *(["mysql"] if find_server() else [])]
ON_ALL = os.environ.get("ROWCALL_TEST_EXAMPLE_DATABASES") == "3"
BOB = Ask("/sign-up", '{"name": "Bob", "address": "bob@example.com"}')

Open = Callable[[str], Example]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each test on one of the databases, or on all. `ROWCALL_TEST_MYSQL=all`: on MariaDB in any case."""
    if "example" in metafunc.fixturenames:
        name = metafunc.function.__name__
        chosen = set(DATABASES) if ON_ALL else {DATABASES[crc32(name.encode()) % len(DATABASES)]}
        metafunc.parametrize("example", sorted(chosen | ({"mysql"} if ALL else set())), indirect=True)


@pytest.fixture
def example(request: pytest.FixtureRequest, tmp_path: Path, shared_folder: Path) -> Open:
    fixture = {"postgresql": "postgres_url", "mysql": "mysql_url"}.get(request.param)
    database_url = None if fixture is None else request.getfixturevalue(fixture)
    installed = unpacked(built_wheel(shared_folder / "wheel"))
    return lambda name: Example(name, tmp_path / name, database_url, installed)


@pytest.fixture
def running() -> Iterator[ExitStack]:
    """What is still running at the end is ended."""
    with ExitStack() as stack:
        yield stack


def sign_up_and_be_welcomed(example: Example, site: Site) -> None:
    """Needs a site with a worker."""
    ann, users, taken = example.asks()
    assert site.ask(users).json() == {}
    answer = site.ask(ann)
    assert answer.status_code == 201, answer.text
    eventually(lambda: site.ask(users).json() == {"ann@example.com": 1}, within=PATIENCE_SECONDS)

    assert site.ask(taken).status_code == 409  # refused after it had enqueued
    assert site.ask(BOB).status_code == 201
    eventually(lambda: site.ask(users).json() == {"ann@example.com": 1, "bob@example.com": 1})
    with Rowcall(example.database_url) as jobs:
        found = {str(job.payload["address"]): job for job in jobs.list(limit=1000) if "address" in job.payload}
        assert set(found) == {"ann@example.com", "bob@example.com"}
        assert found["ann@example.com"].id == answer.json()["job"]
        assert {(job.status, job.result, job.attempt) for job in found.values()} == {("succeeded", "welcomed", 1)}


def stop(process: PythonProcess, said: str) -> None:
    process.send(signal.SIGTERM)
    assert process.wait() in (0, -signal.SIGTERM), process.output  # uvicorn ends by the signal, when all is done
    assert said in process.output


def test_fastapi_with_a_worker_next_to_it(example: Open, running: ExitStack) -> None:
    app = example("fastapi_app")
    server = running.enter_context(app.start("uvicorn", "--port=0"))
    with Site(server) as site:
        sign_up_and_be_welcomed(app, site)
        unknown = site.ask(Ask("/jobs/999999", None))
        assert (unknown.status_code, unknown.json()["title"]) == (404, "Job not found")
        eventually(lambda: "Visited users\n" in server.output)
    assert "Welcome, ann@example.com\n" in server.output
    stop(server, "Application shutdown complete")
    with Rowcall(app.database_url) as jobs:
        assert jobs.workers() == []


def test_fastapi_with_its_own_worker(example: Open, running: ExitStack) -> None:
    app = example("fastapi_app")
    server = running.enter_context(app.start("RUN_WORKER=no uvicorn", "--port=0"))
    with Site(server) as site:
        worker = running.enter_context(app.start("rowcall work"))
        sign_up_and_be_welcomed(app, site)
    assert "Welcome, ann@example.com\n" in worker.output
    assert "Welcome" not in server.output
    stop(worker, "stopped")
    stop(server, "Application shutdown complete")


def test_flask(example: Open, running: ExitStack) -> None:
    app = example("flask_app")
    server = running.enter_context(app.start("flask --app app run", "--port=0"))
    with Site(server) as site:
        worker = running.enter_context(app.start("flask --app app rowcall work"))
        sign_up_and_be_welcomed(app, site)
    assert "Welcome, ann@example.com, from shop@example.com\n" in worker.output
    stop(worker, "stopped")


def test_litestar(example: Open, running: ExitStack) -> None:
    app = example("litestar_app")
    server = running.enter_context(app.start("uvicorn", "--port=0"))
    with Site(server) as site:
        sign_up_and_be_welcomed(app, site)
        unknown = site.ask(Ask(f"/jobs/{10**23}", None))
        assert (unknown.status_code, unknown.json()["title"]) == (404, "Job not found")
        eventually(lambda: "Visited users\n" in server.output)
    stop(server, "Application shutdown complete")


def test_sqlalchemy_and_alembic(example: Open, running: ExitStack) -> None:
    app = example("sqlalchemy_app")
    app.run("alembic upgrade head")
    if app.database_url.startswith("sqlite"):
        app.run("alembic check")
    server = running.enter_context(app.start("flask --app app run", "--port=0"))
    with Site(server) as site:
        book, orders, sold_out = app.asks()
        placed = site.ask(book)
        assert placed.status_code == 201, placed.text
        assert site.ask(orders).json() == [{"item": "book", "receipts": 0, "job": "pending"}]
        assert site.ask(sold_out).status_code == 409  # refused after it had enqueued
        worker = running.enter_context(app.start("rowcall work"))
        done = [{"item": "book", "receipts": 1, "job": "succeeded"}]
        eventually(lambda: site.ask(orders).json() == done, within=PATIENCE_SECONDS)
    assert "Receipt of order 1\n" in worker.output
    stop(worker, "stopped")


def test_celery_imports_are_all_that_changed() -> None:
    """The app that was written for Celery, and the moved one, are the same without their imports."""
    moved = EXAMPLES / "celery_app"
    for name in ("tasks.py", "web.py"):
        before, after = ((folder / name).read_text(encoding="utf-8") for folder in (moved / "before", moved))
        assert without_imports(before) == without_imports(after)
        assert "rowcall" not in before
        assert not re.search(r"\bfrom celery|\bimport celery", after)
    names = re.findall(r"^@(?:app\.|shared_)task", (moved / "tasks.py").read_text(encoding="utf-8"), re.MULTILINE)
    assert len(names) == 10


def without_imports(text: str) -> list[str]:
    imports = [node for node in ast.parse(text).body if isinstance(node, ast.Import | ast.ImportFrom)]
    gone = {line for node in imports for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)}
    return [line for number, line in enumerate(text.splitlines(), start=1) if number not in gone and line]


def test_celery(example: Open, running: ExitStack) -> None:
    app = example("celery_app")
    at = {"ROWCALL_URL": app.database_url}
    server = running.enter_context(app.start("flask --app web run", "--port=0", **at))
    with Site(server) as site:
        emma, _, moon, paper = app.asks()
        placed, refused, counted = (site.ask(ask).json()["id"] for ask in (emma, moon, paper))
        worker = running.enter_context(app.start("rowcall work", **at))

        def state(order_id: str) -> dict[str, object]:
            found: dict[str, object] = site.ask(Ask(f"/orders/{order_id}", None)).json()
            return found

        eventually(lambda: state(placed)["state"] == "SUCCESS", within=PATIENCE_SECONDS)
        parcel = {"first": "Emma, page 1", "pages": 3, "shipped": True}
        assert parcel.items() <= state(placed)["result"].items()  # type: ignore[attr-defined]
        eventually(lambda: [state(order)["state"] for order in (refused, counted)] == ["FAILURE", "SUCCESS"])
        said = (
            "tasks.charge failed: ValueError",
            "order failed in tasks.charge",
            "mail to ann@example.com about 3 pages",
        )
        eventually(lambda: all(text in worker.output for text in said), within=PATIENCE_SECONDS)
    stop(worker, "stopped")
    with Rowcall(app.database_url) as jobs:
        assert {schedule.name for schedule in jobs.schedules()} == {"nightly", "paper"}
        assert {job.queue for job in jobs.list(type="tasks.mail_receipt")} == {"mail"}


def test_django(example: Open, running: ExitStack) -> None:
    app = example("django_app")
    app.run("python manage.py migrate")
    app.run("python manage.py test")
    server = running.enter_context(app.start("python manage.py runserver", "127.0.0.1:0", "--noreload"))
    with Site(server) as site:
        book, orders, sold_out = app.asks()
        lost = running.enter_context(app.start("python manage.py rowcall work", "--noreload", MAIL_SECONDS="100"))
        placed = site.ask(book)
        assert placed.status_code == 201, placed.text
        assert site.ask(sold_out).status_code == 409  # refused after it had enqueued
        eventually(lambda: "sending mail about order 1" in lost.output, within=PATIENCE_SECONDS)
        lost.send(signal.SIGKILL)
        lost.wait()

        worker = running.enter_context(app.start("python manage.py rowcall work"))  # restarts after changes
        done = [{"id": 1, "item": "book", "confirmations": 1, "invoiced": True}]
        eventually(lambda: site.ask(orders).json() == {"orders": done}, within=PATIENCE_SECONDS)
        page = admin_page(app, site, placed.json()["job"])
        for event in ("ENQUEUED", "RECOVERED", "SUCCEEDED"):
            assert f"<td>{event}</td>" in page, page
    stop(worker, "stopped")
    with Rowcall(app.database_url) as jobs:
        assert {(job.type, str(job.status), job.attempt) for job in jobs.list().jobs} == {
            ("confirm", "succeeded", 2),
            ("shop.tasks.invoice", "succeeded", 1),
        }


def admin_page(app: Example, site: Site, job_id: int) -> str:
    """Log into the admin, and return the page of a job."""
    given = {
        "DJANGO_SUPERUSER_USERNAME": "ann",
        "DJANGO_SUPERUSER_PASSWORD": "secret",
        "DJANGO_SUPERUSER_EMAIL": "ann@example.com",
    }
    app.run_with("python manage.py createsuperuser --noinput", **given)
    client = site.client
    client.get("/admin/login/")
    form = {"username": "ann", "password": "secret", "csrfmiddlewaretoken": client.cookies["csrftoken"]}
    assert client.post("/admin/login/?next=/admin/", data=form).status_code == 302
    assert "Retry selected jobs" in client.get("/admin/rowcall/job/").text
    assert "Overview" in client.get("/jobs/").text
    return client.get(f"/admin/rowcall/job/{job_id}/change/").text

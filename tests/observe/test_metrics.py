"""Real workers, asked for their metrics over HTTP."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest
from prometheus_client import Counter
from prometheus_client.parser import text_string_to_metric_families

from rowcall import Cancel, Context, Rowcall, Snooze
from rowcall.app import queue_of
from rowcall.observe.meter import MOST_PAIRS
from rowcall.testing.postgres import PostgresServer
from tests.observe.scraping import free_ports, is_served, samples, scrape, value
from tests.support import eventually
from tests.worker.support import all_ended

OWN = Counter("shop_orders", "A metric of the app's own.")


def declare(jobs: Rowcall) -> None:
    @jobs.task
    def well() -> None: ...

    @jobs.task(queue="mail", max_attempts=1)
    async def badly() -> None:
        raise type("SecretCustomerName", (Exception,), {})("secret detail")

    @jobs.task
    def later() -> None:
        raise Snooze(3600)

    @jobs.task
    def never() -> None:
        raise Cancel("no")


def standing(jobs: Rowcall) -> dict[str, int]:
    return {status: count for status, count in jobs.stats().by_status.items() if count}


@pytest.mark.parametrize("database", ["sqlite", "postgres"])
def test_a_scrape_reports_what_a_worker_did(database: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    url = request.getfixturevalue("postgres_url") if database == "postgres" else tmp_path / "queue.db"
    port = free_ports()
    with Rowcall(url) as jobs:
        declare(jobs)
        for task, count in (("well", 3), ("badly", 2), ("later", 1), ("never", 1)):
            for _ in range(count):
                jobs.enqueue(task)
        with jobs.worker(concurrency=4, metrics_port=port):
            eventually(lambda: standing(jobs) == {"succeeded": 3, "failed": 2, "scheduled": 1, "cancelled": 1})
            eventually(lambda: value(scrape(port), "rowcall_worker_busy") == 0)
            text = scrape(port)
        assert not is_served(port)
    assert value(text, "rowcall_attention", code="no_worker") == 0
    attempts = {
        (sample.labels["queue"], sample.labels["task"], sample.labels["outcome"]): sample.value
        for sample in samples(text)
        if sample.name == "rowcall_attempts_total"
    }
    assert attempts == {
        ("default", "well", "succeeded"): 3,
        ("mail", "badly", "failed"): 2,
        ("default", "later", "snoozed"): 1,
        ("default", "never", "cancelled"): 1,
    }
    for name in ("rowcall_attempt_duration_seconds", "rowcall_job_wait_seconds"):
        assert value(text, f"{name}_count", queue="default", task="well") == 3
        assert value(text, f"{name}_bucket", queue="default", task="well", le="3600.0") == 3
        total = value(text, f"{name}_sum", queue="mail", task="badly")
        assert total is not None
        assert 0 <= total < 60
    assert value(text, "rowcall_worker_slots") == 4
    assert value(text, "rowcall_up") == 1
    assert "SecretCustomerName" not in text
    assert "secret detail" not in text


def test_the_counts_are_the_databases_and_the_apps_own_metrics_are_served_too(jobs: Rowcall) -> None:
    port, gate = free_ports(), threading.Event()

    @jobs.task
    def wait() -> None:
        gate.wait()

    jobs.enqueue("unknown", queue='odd"\n\\queue')
    with closing(sqlite3.connect(queue_of(jobs).config.path)) as raw, raw:
        raw.execute("update rowcall_job set run_at = run_at - 3600000, created_at = created_at - 3600000")
    wait.enqueue()
    OWN.inc(3)
    with jobs.worker(metrics_port=port):
        eventually(lambda: jobs.stats().by_status.get("running") == 1)
        text = scrape(port)
        gate.set()
    assert value(text, "rowcall_jobs", queue="default", status="running") == 1
    assert value(text, "rowcall_jobs", queue='odd"\n\\queue', status="pending") == 1
    assert value(text, "rowcall_oldest_waiting_seconds", queue="default") == 0
    age = value(text, "rowcall_oldest_waiting_seconds", queue='odd"\n\\queue')
    assert age is not None
    assert 3600 <= age < 3700
    assert value(text, "rowcall_worker_busy") == 1
    assert value(text, "shop_orders_total") == 3
    assert value(text, "process_start_time_seconds") is not None
    assert [s.labels["version"] for s in samples(text) if s.name == "rowcall_build_info"] == ["0.1.0"]


def test_completed_and_lost_attempts_are_counted_for_what_they_were(jobs: Rowcall) -> None:
    port = free_ports()
    gate, begun = threading.Event(), threading.Event()

    @jobs.task
    def complete(ctx: Context) -> None:
        with closing(sqlite3.connect(queue_of(jobs).config.path)) as connection, connection:
            ctx.complete({"done": True}, connection=connection)

    @jobs.task
    def stolen() -> None:
        begun.set()
        gate.wait()

    jobs.migrate()
    with jobs.worker(metrics_port=port):
        complete.enqueue()
        all_ended(jobs)
        job = stolen.enqueue()
        begun.wait()
        with closing(sqlite3.connect(queue_of(jobs).config.path)) as connection, connection:
            connection.execute("update rowcall_claim set lease = lease + 2 where job_id = ?", [job.id])
        gate.set()
        labels = {"queue": "default", "task": "stolen", "outcome": "dropped"}
        eventually(lambda: value(scrape(port), "rowcall_attempts_total", **labels) == 1)
        labels = {"queue": "default", "task": "complete", "outcome": "succeeded"}
        assert value(scrape(port), "rowcall_attempts_total", **labels) == 1


def test_recovered_attempts_are_counted_by_queue_and_task(jobs: Rowcall) -> None:
    port = free_ports()
    jobs.enqueue("of_others", queue="mail")
    assert jobs.claim("by-hand", lease=0.1)
    with jobs.worker(metrics_port=port, lease=0.5):
        labels = {"queue": "mail", "task": "of_others"}
        eventually(lambda: value(scrape(port), "rowcall_recovered_attempts_total", **labels) == 1)
        assert value(scrape(port), "rowcall_lost_attempts_total", **labels) == 1


def test_queues_beyond_the_limit_are_one(jobs: Rowcall) -> None:
    port = free_ports()
    for number in range(MOST_PAIRS + 3):
        jobs.enqueue("unknown", queue=f"queue{number:03}")
    with jobs.worker(metrics_port=port):
        found = [sample for sample in samples(scrape(port)) if sample.name == "rowcall_jobs"]
    pending = {sample.labels["queue"]: sample.value for sample in found if sample.labels["status"] == "pending"}
    assert len(pending) == MOST_PAIRS + 1
    assert pending["other"] == 3


def test_a_server_out_of_reach_is_reported_and_fails_no_scrape(private_postgres: PostgresServer) -> None:
    port = free_ports()
    with Rowcall(private_postgres.create_database(), busy_timeout=1.0) as jobs:
        jobs.migrate()
        with jobs.worker(metrics_port=port, grace=0):
            private_postgres.stop()
            text = scrape(port)
            assert value(text, "rowcall_up") == 0
            assert value(text, "rowcall_worker_slots") == 10
            assert not [sample for sample in samples(text) if sample.name == "rowcall_jobs"]
            private_postgres.start()
            eventually(lambda: value(scrape(port), "rowcall_up") == 1)


def test_what_is_served_is_well_formed(jobs: Rowcall) -> None:
    declare(jobs)
    port = free_ports()
    jobs.enqueue("well")
    with jobs.worker(metrics_port=port):
        all_ended(jobs)
        families = list(text_string_to_metric_families(scrape(port)))
    names = [family.name for family in families]
    assert len(names) == len(set(names))
    assert all(family.documentation for family in families if family.name.startswith("rowcall_"))

"""`rowcall work` with metrics and with logs as JSON, as real processes."""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
from pathlib import Path

import pytest

from rowcall import Rowcall
from tests.cli.conftest import Run
from tests.observe.scraping import free_ports, is_served, scrape, value
from tests.support import ForkedProcess, eventually

TALKING = """
import logging, warnings
from app import jobs

library = logging.getLogger("some.library")

@jobs.task(max_attempts=1)
def talk() -> None:
    library.warning("a \\"quoted\\"\\nline", extra={"order": 7})
    try:
        1 / 0
    except ZeroDivisionError:
        library.exception("%d of %d", 1)
    warnings.warn("beware")
    raise ValueError("enough")
"""

SET_UP = """
import logging, sys
logging.basicConfig(stream=sys.stdout, format="MINE %(message)s", level=logging.INFO)
logging.getLogger().addHandler(logging.FileHandler("mine.log"))
logging.raiseExceptions = False
from talking import jobs
"""


def output_of(queue: Rowcall, folder: Path, *words: str) -> list[str]:
    """What a worker says that runs `talk` once."""
    (folder / "talking.py").write_text(TALKING)
    (folder / "set_up.py").write_text(SET_UP)
    with ForkedProcess("-m", "rowcall", "work", *words, cwd=str(folder)) as process:
        job = queue.enqueue("talk", max_attempts=1)
        eventually(lambda: queue.get(job.id).status == "failed")
        process.send(signal.SIGTERM)
        assert process.wait() == 0
        return process.output.splitlines()


def lines_of_many(queue: Rowcall, folder: Path, *words: str) -> list[str]:
    """What a worker says that runs 1,000 jobs, of which one fails."""

    @queue.task
    def hello(name: str) -> str:
        return name

    hello.enqueue_many([{"name": "Ann"}] * 999)
    queue.enqueue("broken", max_attempts=1)
    with ForkedProcess("-m", "rowcall", "work", "app:jobs", *words, cwd=str(folder)) as process:
        eventually(lambda: queue.stats().by_status["failed"] == 1 and queue.stats().by_status["succeeded"] == 999)
        process.send(signal.SIGTERM)
        assert process.wait() == 0
        return process.output.splitlines()


def test_very_many_jobs_share_a_line_for_each_task_and_second(queue: Rowcall, folder: Path) -> None:
    lines = [json.loads(line) for line in lines_of_many(queue, folder, "--log-format=json")]
    summaries = [line for line in lines if "p95_ms" in line.get("extra", {})]
    alone = [line for line in lines if line.get("job_type") == "hello" and "job_id" in line]
    assert len(alone) + sum(line["extra"]["succeeded"] for line in summaries if line["job_type"] == "hello") == 999
    assert len(lines) < 500
    [failure] = [line for line in lines if line["level"] == "ERROR"]
    assert (failure["job_type"], failure["exception"]) == ("broken", "ValueError")
    [first, *_] = [line for line in summaries if line["job_type"] == "hello"]
    assert first["message"].startswith(f"hello: {first['extra']['succeeded']} succeeded, p95 ")


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_line_for_each_job_on_request(queue: Rowcall, folder: Path, form: str) -> None:
    lines = lines_of_many(queue, folder, "--log-jobs=all", f"--log-format={form}")
    said = "(hello): attempt 1 of 5 succeeded in"
    logged = [line for line in lines if said in line]
    if form == "json":
        ids = [json.loads(line)["job_id"] for line in logged]
        assert all(f"job {json.loads(line)['job_id']} {said}" in json.loads(line)["message"] for line in logged)
    else:
        ids = [int(line.partition("] job ")[2].partition(" ")[0]) for line in logged]
    assert sorted(ids) == list(range(1, 1000))


@pytest.mark.parametrize("words", [["talking:jobs"], ["talking:jobs", "--processes=2"]])
def test_every_line_is_a_json_object(queue: Rowcall, folder: Path, words: list[str]) -> None:
    lines = [json.loads(line) for line in output_of(queue, folder, *words, "--log-format=json")]
    for line in lines:
        assert {"time", "level", "logger", "message", "pid"} <= line.keys()
    about = {line["message"]: line for line in lines if line.get("job_type") == "talk"}
    said = about['a "quoted"\nline']
    assert (said["logger"], said["level"], said["extra"]) == ("some.library", "WARNING", {"order": 7})
    assert (said["job_queue"], said["job_attempt"]) == ("default", 1)
    broken = about["'%d of %d' (1,)"]
    assert (broken["exception"], broken["exception_message"]) == ("ZeroDivisionError", "division by zero")
    [warned] = [line for message, line in about.items() if "beware" in message]
    assert warned["logger"] == "py.warnings"
    [failure] = [line for line in lines if line["level"] == "ERROR" and line["logger"] == "rowcall"]
    assert (failure["job_id"], failure["error_code"]) == (said["job_id"], "INTERNAL:ValueError")
    first = failure["traceback"].splitlines()[1]
    assert first.endswith('talking.py", line 15, in talk')
    assert failure["message"].startswith(f"job {said['job_id']} (talk): attempt 1 of 1 failed for good (")
    assert failure["worker"] == said["worker"] == queue.get(said["job_id"]).worker


def test_an_app_that_set_up_logging_has_its_way_unless_a_format_is_asked_for(queue: Rowcall, folder: Path) -> None:
    assert "MINE stopped" in output_of(queue, folder, "set_up:jobs")
    lines = output_of(queue, folder, "set_up:jobs", "--log-format=json")
    assert not any("MINE" in line for line in lines)
    assert [json.loads(line)["job_type"] for line in lines if "quoted" in line] == ["talk"]
    assert "stopped" in (folder / "mine.log").read_text().splitlines()


@pytest.mark.concurrency
def test_each_of_several_processes_has_its_own_metrics_port(queue: Rowcall, folder: Path) -> None:
    port = free_ports(2)
    words = ["app:jobs", "--processes=2", f"--metrics-port={port}", "--concurrency=3"]
    with ForkedProcess("-m", "rowcall", "work", *words, cwd=str(folder)) as process:
        eventually(lambda: len(queue.workers()) == 2)
        for number in range(10):
            queue.enqueue("hello", {"name": f"Ann {number}"})

        def succeeded() -> float:
            labels = {"queue": "default", "task": "hello", "outcome": "succeeded"}
            found = [value(scrape(port + number), "rowcall_attempts_total", **labels) for number in range(2)]
            return sum(count or 0 for count in found)

        eventually(lambda: succeeded() == 10)
        assert [value(scrape(port + number), "rowcall_worker_slots") for number in range(2)] == [3, 3]
        killed = queue.workers()[0].pid
        os.kill(killed, signal.SIGKILL)
        eventually(lambda: len(pids := {worker.pid for worker in queue.workers()} - {killed}) == 2 and pids)
        assert is_served(port)
        assert is_served(port + 1)
        process.send(signal.SIGTERM)
        assert process.wait() == 0
    assert not is_served(port)


@pytest.mark.parametrize("more", [[], ["--processes=2"]])
def test_a_port_that_is_taken_stops_it_at_once(
    run: Run, queue: Rowcall, caplog: pytest.LogCaptureFixture, more: list[str]
) -> None:
    caplog.set_level(logging.INFO, logger="rowcall")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = run("work", "app:jobs", f"--metrics-port={port}", *more)
    assert result.exit_code == 2
    assert f"--metrics-port cannot listen at 127.0.0.1:{port}" in result.stderr.splitlines()[-1]
    assert caplog.messages == []
    assert queue.workers() == []


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--metrics-port=0"], "0 is not in the range"),
        (["--metrics-port=65535", "--processes=2"], "2 processes need ports 65535 and up"),
        (["--metrics-port=9464", "--metrics-host=no such host"], "cannot listen at no such host:9464"),
        (["--metrics-port=9464", f"--metrics-host={'a' * 70}"], "cannot listen at aaa"),
        (["--log-format=xml"], "'xml' is not one of"),
    ],
)
def test_what_is_wrong_is_said_at_once(run: Run, app: Path, words: list[str], problem: str) -> None:
    result = run("work", "app:jobs", *words)
    assert result.exit_code == 2
    assert problem in result.stderr.splitlines()[-1]

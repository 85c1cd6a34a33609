from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rowcall import Rowcall
from tests.cli.conftest import Run


@contextmanager
def working(path: Path) -> Iterator[None]:
    """Enqueue and complete jobs until the block ends: the command may begin to read at any time."""
    done = threading.Event()

    def work() -> None:
        with Rowcall(path) as jobs:
            while not done.is_set():
                jobs.enqueue("hello", {"name": "Ann"})
                [claimed] = jobs.claim("by hand")
                jobs.complete(claimed)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def test_events(run: Run, queue: Rowcall, folder: Path) -> None:
    with working(folder / "queue.db"):
        words = ("--task", "hello", "--kind", "enqueued", "--kind", "succeeded", "--limit", "3")
        result = run("events", "app:jobs", *words, "--json")
        found = [json.loads(line) for line in result.stdout.splitlines()]
        assert {(one["event"], one["type"], one["queue"]) for one in found} == {
            ("ENQUEUED", "hello", "default"),
            ("SUCCEEDED", "hello", "default"),
        }
        assert len({(one["event"], one["job_id"]) for one in found}) == 3
        shown = run("events", "app:jobs", "--limit", "1", "--queue", "default", "--kind", "SUCCEEDED")
    assert re.fullmatch(r"[-\d]+ [:.\d]+ SUCCEEDED job \d+ hello in default by by hand\n", shown.stdout)


def test_events_refuses(run: Run, queue: Rowcall) -> None:
    for words, code, said in (
        (["--kind", "SUCCEDED"], 2, "got 'SUCCEDED' (did you mean 'SUCCEEDED'?)"),
        (["--id", "7"], 1, "job 7 does not exist"),
        (["--queue", ""], 2, "--queue must have 1 to 200 characters, got 0"),
    ):
        result = run("events", "app:jobs", *words)
        assert (result.exit_code, said in result.stderr) == (code, True), result.stderr

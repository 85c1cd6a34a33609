"""`top`: one screen of all answers, live on a terminal and once in a pipe."""

from __future__ import annotations

import json
import signal
from itertools import pairwise
from pathlib import Path

import pytest

from rowcall import Rowcall, Status
from rowcall.testing.postgres import PostgresServer
from tests.cli.conftest import APP, Run, change
from tests.cli.terminal import Terminal


@pytest.fixture
def busy(queue: Rowcall) -> Rowcall:
    queue.enqueue("broken", max_attempts=1)
    queue.fail(queue.claim("worker-1", limit=1)[0], "TIMEOUT:UPSTREAM_API", "30 s")
    queue.enqueue("hello", {"name": "Ann"})
    queue.claim("worker-1", limit=1)
    queue.enqueue("hello", {"name": "Bob"}, delay=3600)
    return queue


def test_a_pipe_gets_one_screen(run: Run, busy: Rowcall) -> None:
    for words in (["top", "app:jobs"], ["top", "app:jobs", "--once"]):
        result = run(*words)
        assert result.exit_code == 0
        lines = [line.split() for line in result.stdout.splitlines()]
        assert lines[0][-2:] == ["0", "workers"]
        assert ["TIMEOUT:UPSTREAM_API", "1", "█" * 12, "broken"] in [line[:4] for line in lines]
        assert ["2", "hello", "default", "1/5"] in [line[:4] for line in lines]
        assert " ".join(lines[-1]).startswith("1 finished job kept; the next prune deletes 0; ")
        assert "\x1b" not in result.stdout


def test_once_in_json(run: Run, busy: Rowcall) -> None:
    result = run("top", "app:jobs", "--once", "--json")
    shown = json.loads(result.stdout)
    assert list(shown) == [
        "stats",
        "waits",
        "stuck",
        "retries",
        "errors",
        "failing",
        "retention",
        "attention",
        "workers",
    ]
    for command, key, inner in (
        ("retries", "retries", None),
        ("errors", "errors", "errors"),
        ("retention", "retention", None),
    ):
        alone = json.loads(run(command, "app:jobs", "--json").stdout)
        answer = alone if inner is None else alone[inner]
        assert shown[key] == (answer | {"counted_at": shown[key]["counted_at"]} if key == "retries" else answer)
    assert [job["id"] for job in shown["stuck"]] == [2]
    assert shown["stats"]["total"] == 3
    assert shown["workers"] == {"alive": 0, "gone": 0, "silent": 0, "stopped": 0} | dict.fromkeys(
        ("running", "concurrency", "buffered"), 0
    )


def test_what_needs_attention_comes_first(run: Run, busy: Rowcall, folder: Path) -> None:
    assert "warning" not in run("top", "app:jobs").stdout
    for number in range(12):
        busy.enqueue("hello", {"name": "Ann"}, queue=f"queue-{number}")
        busy.pause(f"queue-{number}")
    change(folder, "update rowcall_pause set at = at - 3600000")
    lines = run("top", "app:jobs").stdout.splitlines()
    assert lines[2].startswith("warning  queue queue-0 was paused 1 h ago by ")
    assert lines[3] == "  → Resume it, unless this is intended: rowcall resume app:jobs queue-0"
    [*_, last] = [line for line in lines if line.startswith("warning  ")]
    assert last.startswith("warning  and 7 more of the kind paused, such as: queue queue-")
    found = json.loads(run("top", "app:jobs", "--json").stdout)["attention"]
    assert [one["code"] for one in found] == ["paused"] * 6
    assert found[0]["advice"] == "Resume it, unless this is intended: rowcall resume app:jobs queue-0"


def test_on_a_terminal_it_runs_until_it_is_interrupted(busy: Rowcall) -> None:
    with Terminal("top", "app:jobs", columns=160, lines=60) as terminal:  # the path of the file is on its first line
        terminal.wait_for("TIMEOUT:UPSTREAM_API")
        terminal.wait_for("0 workers")
        assert len(terminal.screen) <= 60
        busy.enqueue("hello", queue="a-late-one")
        terminal.wait_for("a-late-one")
        with busy.worker(queues="other"):
            terminal.wait_for("1 worker")
        assert terminal.interrupt() == 0
    assert "Traceback" not in terminal.text
    assert terminal.drawn.endswith("\x1b[?1049l")  # the former screen is back


def test_a_key_quits_it(busy: Rowcall) -> None:
    with Terminal("top", "app:jobs", columns=160, lines=60) as terminal:
        terminal.wait_for("0 workers")
        terminal.type("xq")
        assert terminal.wait() == 0
    assert "Traceback" not in terminal.text
    assert terminal.drawn.endswith("\x1b[?1049l")


def test_a_small_terminal_shows_the_most_urgent_and_names_the_rest(busy: Rowcall, folder: Path) -> None:
    for number in range(4):
        busy.enqueue("hello", {"name": "Ann"}, queue=f"queue-{number}")
        busy.pause(f"queue-{number}")
    change(folder, "update rowcall_pause set at = at - 3600000")
    with Terminal("top", "app:jobs", columns=80, lines=24, NO_COLOR="1") as terminal:
        terminal.wait_for("q quit")
        assert len(terminal.screen) <= 24
        warned = [line for line in terminal.screen if line.startswith("warning  queue queue-")]
        assert len(warned) == 4
        assert [line[-1] for line in warned[1:]] == ["…"] * 3  # only of the first one there is room for what to do
        assert max(len(line) for line in terminal.screen) <= 80
        assert [line.split()[:5] for line in terminal.screen if line.startswith("queue ")] == [
            ["queue", "pending", "oldest", "in/h", "out/h"]
        ]
        for number in range(4):
            busy.resume(f"queue-{number}")
        terminal.resize(80, 8)
        terminal.wait_for("6 totals+")
        terminal.type("x4")  # one part alone, as far as there is room
        terminal.wait_for("TIMEOUT:UPSTREAM_API")
        assert not any(line.startswith("queue ") for line in terminal.screen)
        terminal.type("0")
        terminal.wait_for("in/h")
        terminal.resize(120, 60)
        terminal.wait_for("1 finished job kept")
        terminal.process.send_signal(signal.SIGTERM)
        assert terminal.wait() == 0


@pytest.mark.parametrize("columns", [80, 40])
@pytest.mark.parametrize("words", [("top", "--once"), ("stats",), ("retries",)])
def test_a_narrow_terminal_gets_every_name_and_no_cut_figure(
    busy: Rowcall, words: tuple[str, ...], columns: int
) -> None:
    busy.enqueue("hello", queue="mail", key="one")
    busy.cancel(busy.enqueue("hello", queue="mail", key="two").id)
    with Terminal(*words, "app:jobs", columns=columns, lines=24, NO_COLOR="1") as terminal:
        assert terminal.wait() == 0
    lines = [line.rstrip() for line in terminal.text.splitlines()]
    assert max(map(len, lines)) <= columns
    heads = [line.split() for line, below in pairwise(lines) if below.startswith("───")]
    whole = {*Status, *("arrived", "retried", "all", "oldest", "state", "queue", "type", "jobs", "attempts")}
    whole |= {
        "waiting",
        "error",
        "types",
        "first",
        "last",
        "hour",
        "id",
        "attempt",
        "silent",
        "running",
        "for",
        "worker",
    }
    whole |= {"wait", "run", "p50", "p95", "p99", "in/h", "out/h", "task", "host", "why", "they", "message", "progress"}
    assert [word for head in heads for word in head if word not in whole and not word.rstrip("+").isdecimal()] == []
    assert {head[0] for head in heads} <= {"state", "queue", "type", "task", "error", "id", "attempts"}
    assert "█" in terminal.text
    assert not any(line.strip(" █") == "" and "█" in line for line in lines)  # no bar continues in the next line
    for name in ("hello", "broken", *(("mail", "default") if words != ("retries",) else ())):
        assert any(line.startswith(f"{name} ") for line in lines)


def test_while_the_server_is_away_it_says_so_and_continues(app: Path, private_postgres: PostgresServer) -> None:
    url = private_postgres.url()
    app.write_text(APP.replace("sqlite:///queue.db", url))
    with Rowcall(url) as jobs:
        jobs.migrate()
        jobs.enqueue("hello", {"name": "Ann"})
    with Terminal("top", "app:jobs", columns=120, lines=60) as terminal:
        terminal.wait_for("default ")
        private_postgres.stop()
        terminal.wait_for("no answer for")
        terminal.wait_for("trying again: ")
        private_postgres.start()
        with Rowcall(url) as jobs:
            jobs.enqueue("hello", {"name": "Bob"}, queue="a-new-queue")
        terminal.wait_for("a-new-queue")
        assert "no answer" not in "\n".join(terminal.screen)
        assert terminal.interrupt() == 0


def test_a_database_that_is_not_there_is_an_error(run: Run, folder: Path) -> None:
    result = run("top", "--url", "sqlite:///nothing.db")
    assert (result.exit_code, result.stdout) == (1, "")
    with Terminal("top", "--url", "sqlite:///nothing.db") as terminal:
        assert terminal.wait() == 1
    assert "there is no file" in terminal.text

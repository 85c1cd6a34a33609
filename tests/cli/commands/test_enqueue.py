"""`rowcall enqueue`: arguments from the command line and from standard input, checked as in Python."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner, Result

from rowcall import Rowcall
from rowcall.cli.main import main
from tests.cli.answers import answer_of, rows_of
from tests.cli.conftest import Run


def feed(given: str | bytes, *words: str) -> Result:
    return CliRunner().invoke(main, ["enqueue", "app:jobs", "hello", "-", *words], input=given)


def test_a_job_is_written_with_its_arguments(run: Run, queue: Rowcall) -> None:
    assert rows_of(run, "enqueue", "app:jobs", "hello", '{"name": "Ann"}') == [["job", "1", "hello", "is", "pending"]]
    assert queue.get(1).payload == {"name": "Ann"}
    assert rows_of(run, "enqueue", "app:jobs", "broken") == [["job", "2", "broken", "is", "pending"]]
    assert queue.get(2).max_attempts == 1  # as the app declares it


def test_an_app_makes_its_tables_and_a_url_does_not(run: Run, app: Path, folder: Path) -> None:
    result = run("enqueue", "--url", "sqlite:///queue.db", "hello")
    assert result.exit_code == 1
    assert "there is no file" in result.stderr
    assert not (folder / "queue.db").exists()
    assert run("enqueue", "app:jobs", "hello", '{"name": "Ann"}').exit_code == 0
    assert run("enqueue", "--url", "sqlite:///queue.db", "anything", '{"is": ["accepted"]}').exit_code == 0
    with Rowcall(folder / "queue.db") as jobs:
        assert [job.type for job in jobs.list()] == ["anything", "hello"]


def test_every_option_reaches_the_job(run: Run, queue: Rowcall) -> None:
    words = "--queue mail --priority 7 --delay 2m --max-attempts 3 --timeout 1h --expires-in 2d --tag a --tag b --key k"
    more = "--key-scope any --key-window 1h --on-duplicate return --after 1 --on-blocker-failure run"
    queue.enqueue("hello", {"name": "first"})
    [job] = answer_of(run, "enqueue", "app:jobs", "hello", '{"name": "Ann"}', *words.split(), *more.split())["jobs"]
    found = queue.get(job["id"])
    assert (found.queue, found.priority, found.max_attempts, found.timeout) == ("mail", 7, 3, 3600.0)
    assert (found.tags, found.key, found.status) == (("a", "b"), "k", "blocked")
    assert found.expires_at == found.created_at + timedelta(days=2)
    assert found.run_at == found.created_at + timedelta(minutes=2)
    again = answer_of(run, "enqueue", "app:jobs", "hello", '{"name": "Ann"}', "--key", "k", "--key-scope", "any")
    assert (again["jobs"][0]["id"], again["jobs"][0]["duplicate"], job["duplicate"]) == (found.id, True, False)
    at = ["--run-at", "2040-01-02T09:00+01:00", "--expires-at", "2040-01-03T09:00Z"]
    [[*said]] = rows_of(run, "enqueue", "app:jobs", "hello", '{"name": "Ann"}', *at)
    assert " ".join(said).endswith("hello is scheduled for 2040-01-02 08:00:00.000 UTC")


@pytest.mark.parametrize("given", ['{"name": "Ann"}', '{\n  "name": "Ann"\n}\n'])
def test_one_object_is_read_from_standard_input(queue: Rowcall, given: str) -> None:
    assert feed(given).exit_code == 0
    assert [job.payload for job in queue.list()] == [{"name": "Ann"}]


def test_each_line_of_standard_input_is_a_job(queue: Rowcall) -> None:
    result = feed("".join(f'{{"name": "{number}"}}\n\n' for number in range(30)), "--priority", "3")
    assert result.exit_code == 0
    assert result.stdout.splitlines()[0] == "job 1 hello is pending"
    assert result.stdout.splitlines()[-1] == "30 jobs enqueued (and 10 more; --json has them all)"
    jobs = queue.list(order="oldest").jobs
    assert [(job.payload["name"], job.priority) for job in jobs] == [(str(number), 3) for number in range(30)]
    assert feed("").stdout == "0 jobs enqueued\n"


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ('{"name": "Ann"}\n{"nome": "Bob"}\n', "row 1: line 2 of standard input: hello: unexpected argument 'nome'"),
        ('{"name": "Ann"}\n\n{"name": 3}\n', "row 1: line 3 of standard input: hello: "),
        (
            '{"name": "Ann"}\n[1]\n',
            "row 1: line 2 of standard input is not a JSON object: Expected `object`, got `array`",
        ),
        (b'{"name": "\xff"}', "row 0: line 1 of standard input is not a JSON object"),
        ('{"name": ' + "[" * 100_000, "row 0: line 1 of standard input is not a JSON object"),
    ],
)
def test_one_wrong_line_writes_nothing(queue: Rowcall, given: str | bytes, problem: str) -> None:
    result = feed(given)
    assert result.exit_code == 2
    assert result.stderr.splitlines()[-1].startswith(f"error: {problem}")
    assert list(queue.list()) == []


@pytest.mark.parametrize(
    ("words", "code", "problem"),
    [
        (["hello"], 2, "error: hello: missing argument 'name'"),
        (["hello", '{"name": 7}'], 2, "error: hello: "),
        (["hello", '{"name": "Ann", "x": 1}'], 2, "error: hello: unexpected argument 'x'"),
        (["hello", "[1]"], 2, "is not a JSON object"),
        (["hello", '{"name": ' + "[" * 100_000], 2, "[[...' is not a JSON object"),
        (["hello", "{}", "{}"], 2, "give a task, and its arguments as one JSON object, or - to read them"),
        ([], 2, "give a task"),
        (["helo", "{}"], 1, "did you mean 'hello'"),
        (["hello", '{"name": "A"}', "--priority", str(2**40)], 2, "error: --priority must be"),
        (["hello", '{"name": "A"}', "--delay", "soon"], 2, "is not a duration"),
        (
            ["hello", '{"name": "A"}', "--delay", "1", "--run-at", "2040-01-01T00:00Z"],
            2,
            "cannot be combined with delay",
        ),
        (["hello", '{"name": "A"}', "--key-scope", "any"], 2, "has no effect without a key; add --key"),
        (["hello", '{"name": "A"}', "--after", "99"], 2, "--after: no such job 99"),
        (["hello", '{"name": "A"}', "--target", "https://a.example"], 2, "--target needs a secret"),
    ],
)
def test_what_is_wrong_is_said_and_nothing_is_written(
    run: Run, queue: Rowcall, words: list[str], code: int, problem: str
) -> None:
    result = run("enqueue", "app:jobs", *words)
    assert (result.exit_code, problem in result.stderr.splitlines()[-1]) == (code, True), result.stderr
    assert list(queue.list()) == []


def test_a_job_is_pushed_to_a_target(run: Run, queue: Rowcall, app: Path) -> None:
    push = ', push=PushOptions(secrets=["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"]))'
    app.write_text(
        app.read_text().replace('queue.db")', f'queue.db"{push}').replace("Rowcall\n", "PushOptions, Rowcall\n", 1)
    )
    words = ["enqueue", "app:jobs", "hello", '{"name": "Ann"}', "--target"]
    assert answer_of(run, *words, "https://a.example/jobs")["jobs"][0]["target"] == "https://a.example/jobs"
    assert queue.get(1).target == "https://a.example/jobs"
    assert "--target must begin with" in run(*words, "a.example").stderr


def test_a_key_that_is_taken_can_be_refused(run: Run, queue: Rowcall) -> None:
    words = ["enqueue", "app:jobs", "hello", '{"name": "Ann"}', "--key", "k"]
    assert run(*words).exit_code == 0
    assert run(*words).stdout == "job 1 hello is pending, and existed already\n"
    result = run(*words, "--on-duplicate", "raise")
    assert (result.exit_code, len(queue.list())) == (1, 1)


def test_a_queue_in_memory_is_refused(run: Run, folder: Path) -> None:
    (folder / "memory.py").write_text("from rowcall import Rowcall\njobs = Rowcall('sqlite:///:memory:')\n")
    assert "only in the memory" in run("enqueue", "memory:jobs", "hello").stderr


def test_a_closed_standard_input_is_said(run: Run, queue: Rowcall, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rowcall.cli.commands.enqueue.sys", SimpleNamespace(stdin=None))
    result = run("enqueue", "app:jobs", "hello", "-")
    assert (result.exit_code, result.stderr.splitlines()[-1]) == (2, "error: standard input is closed")


def test_a_server(run: Run, server_queue: Rowcall) -> None:
    assert rows_of(run, "enqueue", "app:jobs", "hello", '{"name": "Ann"}', "--key", "k")[0][2:] == [
        "hello",
        "is",
        "pending",
    ]
    assert [job.payload for job in server_queue.list()] == [{"name": "Ann"}]

from __future__ import annotations

import json

import pytest

from rowcall import Limit, Rowcall
from tests.cli.conftest import Run


def test_a_limit_is_listed_set_and_reset(run: Run, queue: Rowcall) -> None:
    assert run("limits", "app:jobs").stdout == "no limits\n"
    for _ in range(3):
        queue.enqueue("hello", {"name": "ann"}, limit=Limit("api", rate=1, per=60))
    queue.claim("w", limit=3)
    result = run("limits", "app:jobs", "set", "api", "--concurrency", "2")
    assert result.stdout == "limit api: 2 at once, 1 in 1 min; declared: the numbers of its jobs\n"
    (limit,) = json.loads(run("limits", "--url", "sqlite:///queue.db", "--json").stdout)["limits"]
    assert (limit["concurrency"], limit["rate"], limit["per"], limit["running"], limit["waiting"]) == (2, 1, 60.0, 1, 2)
    listed = run("limits", "app:jobs").stdout
    assert "api    2 at once, 1 in 1 min  1 runs, 1 started in 1 min" in listed
    assert run("limits", "app:jobs", "reset", "api").stdout == "limit api has its declared numbers again\n"
    again = run("limits", "app:jobs", "reset", "api")
    assert (again.exit_code, again.stdout) == (1, "limit api was neither set nor held\n")


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["set"], 2, "write one name after set, got 0"),
        (["set", "api"], 2, "give --concurrency, or --rate and --per"),
        (["set", "api", "--rate", "0"], 2, "rate must be a whole number from 1 to 1000000000, got 0"),
        (["set", "ap", "--concurrency", "1"], 1, "limit 'ap' does not exist (did you mean 'api'?)"),
        (["reset", "api", "--rate", "1"], 2, "--rate belongs to: rowcall limits set NAME"),
        (["raise", "api"], 2, "'raise' is not an action; write: set NAME, or: reset NAME"),
    ],
)
def test_what_is_wrong_is_said(run: Run, queue: Rowcall, words: list[str], code: int, said: str) -> None:
    queue.limit_queue("mail", Limit("api", concurrency=1))
    with queue.worker(queues=["mail"]):
        pass
    result = run("limits", "app:jobs", *words)
    assert result.exit_code == code
    assert said in result.stderr

from __future__ import annotations

import json

import pytest

from rowcall import Rowcall
from rowcall.app import queue_of
from rowcall.declare.option_table import Options
from rowcall.operations.enqueue import bind_by_name
from tests.cli.conftest import Run


def test_batches_are_listed_shown_and_changed(run: Run, queue: Rowcall) -> None:
    assert run("batches", "app:jobs").stdout == "no batches\n"
    batch = queue.batch("import 42")
    batch.add([bind_by_name(queue_of(queue), "hello", {"name": name}, Options()) for name in "ab"])
    queue.complete(queue.claim("w")[0])
    assert "import 42  open    1 of 2" in run("batches", "app:jobs").stdout
    shown = run("batches", "app:jobs", "1").stdout
    assert "1 of 2 jobs have ended (50 %)" in shown
    assert run("batches", "app:jobs", "seal", "1").stdout == "batch 1: sealed\n"
    assert run("batches", "app:jobs", "cancel", "1").stdout == "batch 1: 1 job cancelled, or asked to stop\n"
    answer = json.loads(run("batches", "--url", "sqlite:///queue.db", "retry", "1", "--json").stdout)
    assert (answer["changed"], answer["batch"]["status"]) == (0, "finished")
    (cancelled,) = json.loads(run("jobs", "app:jobs", "--batch", "1", "--status", "cancelled", "--json").stdout)["jobs"]
    assert cancelled["batch_id"] == 1


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["7"], 1, "batch 7 does not exist"),
        (["seal"], 2, "write the id of a batch, alone or after one of seal, cancel, retry"),
        (["x"], 2, "write the id of a batch"),
    ],
)
def test_what_is_wrong_is_said(run: Run, queue: Rowcall, words: list[str], code: int, said: str) -> None:
    result = run("batches", "app:jobs", *words)
    assert (result.exit_code, said in result.stderr) == (code, True)

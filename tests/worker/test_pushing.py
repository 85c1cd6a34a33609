from __future__ import annotations

from pathlib import Path

import pytest

from rowcall import PushOptions, Rowcall
from rowcall.app import queue_of
from rowcall.declare.declaration import Lane
from rowcall.domain.payload import PayloadUnfit
from rowcall.worker.pushing import Pushing

PUSH = PushOptions(secrets=["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"])


def test_a_pushed_task_runs_on_the_event_loop_with_its_whole_payload(tmp_path: Path) -> None:
    with Rowcall(tmp_path / "app.db", push=PUSH) as jobs:

        @jobs.push("https://app.example/jobs", timeout=7)
        def send(to: str) -> None: ...

        task = jobs.declared_task("send")
        pushing = Pushing(queue_of(jobs))
        pushed = pushing.of(task)
        assert pushing.of(task) is pushed
        assert (pushed.lane, pushed.options.timeout_seconds) == (Lane.LOOP, 7)
        assert pushed.arguments.from_json('{"other": [1]}') == ([{"other": [1]}], {})
        for wrong in ("[1]", "7", "{", "[" * 100_000):
            with pytest.raises(PayloadUnfit):
                pushed.arguments.from_json(wrong)

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from rowcall import Paused, Pruned, Value
from rowcall.http.api.job_changes import ChangedJobs, Deleted, Refused
from rowcall.http.api.system import Resumed
from rowcall.http.pages.forms import body_of, done_text
from rowcall.http.problems import Problem

NOW = datetime.now(UTC)


def test_empty_fields_are_left_out() -> None:
    assert body_of([("csrf", "x"), ("return_to", "/"), ("reason", ""), ("rate", "3")]) == {"rate": "3"}


def test_filters_may_repeat() -> None:
    found = body_of([("filter.status", "failed"), ("filter.status", "running"), ("filter.payload", '{"a": 1}')])
    assert found == {"filter": {"status": ["failed", "running"], "payload": {"a": 1}}}


def test_wrong_json_is_named() -> None:
    with pytest.raises(Problem, match="arguments must be JSON"):
        body_of([("json.arguments", "{")])


@pytest.mark.parametrize(
    ("path", "answer", "said"),
    [
        ("/jobs/retry", ChangedJobs(count=3), "3 jobs will run again"),
        ("/jobs/priority", ChangedJobs(count=1), "1 job with a new priority"),
        (
            "/jobs/retry",
            ChangedJobs(count=0, refused=[Refused(id=1, error="no")]),
            "0 jobs will run again; 1 job refused it: no",
        ),
        ("/jobs/{id:int}/delete", Deleted(id=3), "Job 3 was deleted"),
        (
            "/queues/{name:path}/pause",
            Paused(kind="queue", name="*", actor=None, at=NOW),
            "Paused every queue",
        ),
        ("/queues/{name:path}/resume", Resumed(was_paused=False), "It was not paused"),
        ("/prune", Pruned(jobs=2, by_status={}), "Deleted 2 jobs"),
    ],
)
def test_what_is_said_afterwards(path: str, answer: Value, said: str) -> None:
    assert done_text(path, answer) == said

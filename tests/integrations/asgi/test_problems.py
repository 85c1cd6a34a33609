"""Which errors become answers."""

from __future__ import annotations

import json

import pytest

from rowcall import (
    DuplicateJob,
    InvalidArguments,
    InvalidOption,
    JobFailed,
    JobNotFound,
    RowcallError,
    StoreUnavailable,
    UnknownTask,
)
from rowcall.integrations.asgi.problems import answer_for


@pytest.mark.parametrize(
    ("error", "status"),
    [(JobNotFound(7), 404), (DuplicateJob("send", "a", 7), 409), (InvalidArguments("send", "to is missing"), 422)],
)
def test_a_client_learns_what_was_wrong(error: RowcallError, status: int) -> None:
    answer = answer_for(error)
    assert answer is not None
    found = json.loads(answer[1])
    assert (answer[0], found["status"], found["detail"]) == (status, status, str(error))


def test_a_client_does_not_learn_about_the_server() -> None:
    answer = answer_for(StoreUnavailable("the server db-1 does not answer", "start it"))
    assert answer is not None
    assert (answer[0], answer[2]) == (503, {"Retry-After": "5"})
    assert b"db-1" not in answer[1]


@pytest.mark.parametrize("error", [InvalidOption("delay", "must be positive"), JobFailed(7, "A:B", None)])
def test_a_mistake_of_the_app_is_not_an_answer(error: RowcallError) -> None:
    assert answer_for(error) is None
    assert answer_for(UnknownTask("send", [])) is not None

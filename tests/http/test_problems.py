from __future__ import annotations

import json

import msgspec
import pytest

from rowcall import InvalidOption, JobNotFound, StoreUnavailable, WrongState
from rowcall.http.problems import Problem, problem_of


@pytest.mark.parametrize(
    ("error", "status", "title"),
    [
        (JobNotFound(7), 404, "Job not found"),
        (WrongState(7, "running", "delete", []), 409, "Wrong state"),
        (InvalidOption("limit", "must be a number"), 422, "Invalid option"),
        (StoreUnavailable("the disk is full"), 503, "Store unavailable"),
        (TimeoutError(), 503, "Timeout"),
        (msgspec.ValidationError("Expected `int`"), 422, "Invalid value"),
        (msgspec.DecodeError("malformed"), 400, "Invalid JSON"),
    ],
)
def test_errors_of_the_library_have_a_status(error: Exception, status: int, title: str) -> None:
    problem = problem_of(error)
    assert problem is not None
    assert (problem.status, problem.title) == (status, title)


def test_problem_details_carry_the_fields_of_the_error() -> None:
    problem = problem_of(WrongState(7, "running", "delete", []))
    assert problem is not None
    found = json.loads(problem.to_json())
    assert found["status"] == 409
    assert found["job_id"] == 7
    assert found["job_status"] == "running"
    assert "job 7 is running" in found["detail"]


def test_other_errors_are_not_explained() -> None:
    assert problem_of(KeyError("secret")) is None
    assert problem_of(problem := Problem(418, "Teapot")) is problem

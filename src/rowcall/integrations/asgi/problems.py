"""Rowcall's errors as answers of a web app: problem details (RFC 9457)."""

from __future__ import annotations

from rowcall.domain.errors import InvalidArguments, InvalidOption, RowcallError
from rowcall.http.problems import MEDIA_TYPE, Problem, problem_of

UNAVAILABLE = 503
RETRY_AFTER_SECONDS = 5

__all__ = ["MEDIA_TYPE", "answer_for"]


def answer_for(error: RowcallError) -> tuple[int, bytes, dict[str, str]] | None:
    """Return the status, body and headers for an error that a client can understand, else None.

    Wrong options are mistakes of the app, so they are not answers. What is wrong with the server is not shown.
    """
    if isinstance(error, InvalidOption) and not isinstance(error, InvalidArguments):
        return None
    problem = problem_of(error)
    if problem is None:
        return None
    if problem.status == UNAVAILABLE:
        hidden = Problem(UNAVAILABLE, "Service unavailable", "background jobs cannot be enqueued or read at the moment")
        return UNAVAILABLE, hidden.to_json(), {"Retry-After": str(RETRY_AFTER_SECONDS)}
    return problem.status, problem.to_json(), {}

"""Errors as HTTP answers: problem details (RFC 9457)."""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from rowcall.domain import errors

MEDIA_TYPE = "application/problem+json"

_STATUSES: dict[type[Exception], int] = {
    errors.TooLarge: 413,
    errors.InvalidArguments: 422,
    errors.InvalidOption: 422,
    errors.UnknownTask: 404,
    errors.JobNotFound: 404,
    errors.ScheduleNotFound: 404,
    errors.LimitNotFound: 404,
    errors.BatchNotFound: 404,
    errors.BatchSealed: 409,
    errors.BatchNotOver: 409,
    errors.DuplicateJob: 409,
    errors.WrongState: 409,
    errors.LeaseLost: 409,
    errors.JobCancelled: 409,
    errors.PushRefused: 401,
    errors.StillNeeded: 409,
    errors.DataRefused: 422,
    errors.CannotDecrypt: 409,
    errors.StoreUnavailable: 503,
    errors.SchemaMismatch: 503,
    errors.BlobUnreadable: 503,
    errors.NoAnswer: 504,
    TimeoutError: 503,
}
_MEMBERS = {"status": "job_status"}  # problem details have a status as well


class Problem(Exception):
    """An answer that is not a success, with its headers. `fields` are further members of the problem details."""

    def __init__(
        self, status: int, title: str, detail: str = "", *, headers: Mapping[str, str] | None = None, **fields: object
    ) -> None:
        super().__init__(detail or title)
        self.status = status
        self.title = title
        self.detail = detail
        self.headers = headers
        self.fields = fields

    def to_json(self) -> bytes:
        members = {"type": "about:blank", "title": self.title, "status": self.status}
        if self.detail:
            members["detail"] = self.detail
        return msgspec.json.encode({**self.fields, **members}, enc_hook=str)


def problem_of(error: Exception) -> Problem | None:
    """Return the answer for an error of the library, or None for one that is not known."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, msgspec.ValidationError):
        return Problem(422, "Invalid value", str(error))
    if isinstance(error, msgspec.DecodeError):
        return Problem(400, "Invalid JSON", str(error))
    for kind, status in _STATUSES.items():
        if isinstance(error, kind):
            if kind is TimeoutError:
                return Problem(status, "Timeout", "the database did not answer in time")
            fields = {_MEMBERS.get(name, name): value for name, value in vars(error).items()}
            return Problem(status, _title(type(error).__name__), str(error), **fields)
    return None


def _title(name: str) -> str:
    """
    >>> _title("JobNotFound")
    'Job not found'
    """
    return re.sub(r"(?<!^)(?=[A-Z])", " ", name).capitalize()

"""Calls that run at once, in place of a job."""

from __future__ import annotations

import traceback
import uuid
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import NamedTuple

import msgspec

from rowcall.domain.errors import InvalidOption
from rowcall.domain.job import Job
from rowcall.integrations.celery import states
from rowcall.observe.shown_exceptions import drop_callers


class Request(msgspec.Struct):
    """What a task knows of its call."""

    id: str | None = None
    task: str | None = None
    args: Sequence[object] = ()
    kwargs: Mapping[str, object] = {}
    retries: int = 0
    is_eager: bool = False
    called_directly: bool = True
    hostname: str | None = None
    delivery_info: dict[str, object] = {}


def eager_request(task: str, args: Sequence[object], kwargs: Mapping[str, object]) -> Request:
    info: dict[str, object] = {"is_eager": True}
    return Request(str(uuid.uuid4()), task, args, kwargs, is_eager=True, called_directly=False, delivery_info=info)


class EagerResult:
    """What `apply` returns: the value or the error of a call that has already ended."""

    def __init__(self, request: Request, value: object, state: str = states.SUCCESS) -> None:
        self.request = request
        self.result = self.info = value
        self.state = self.status = state

    def __repr__(self) -> str:
        return f"<EagerResult: {self.id} {self.state}>"

    @property
    def id(self) -> str:
        assert self.request.id is not None
        return self.request.id

    task_id = id

    @property
    def job(self) -> Job:
        raise InvalidOption("job", "is not there: the call ran in place")

    @property
    def traceback(self) -> str | None:
        error = self.result
        if not isinstance(error, BaseException):
            return None
        return "".join(traceback.format_exception(drop_callers(error)))

    def ready(self) -> bool:
        return True

    def successful(self) -> bool:
        return self.state == states.SUCCESS

    def failed(self) -> bool:
        return self.state == states.FAILURE

    def get(
        self,
        timeout: float | timedelta | None = None,
        propagate: bool = True,
        interval: float = 0.5,
        disable_sync_subtasks: bool = True,
    ) -> object:
        """Return the value, or raise the error."""
        if propagate and self.state in states.PROPAGATE_STATES and isinstance(self.result, BaseException):
            raise self.result
        return self.result

    wait = get

    def revoke(self, terminate: bool = False, signal: str | None = None) -> None:
        """Do nothing: it has ended."""

    def forget(self) -> None:
        """Do nothing: it was not stored."""


class FailedCall(NamedTuple):
    """What a call gets that follows a failure."""

    request: Request
    error: BaseException
    traceback: str


def failed_call(result: EagerResult) -> FailedCall:
    error = result.result
    return FailedCall(
        result.request, error if isinstance(error, BaseException) else Exception(error), result.traceback or ""
    )

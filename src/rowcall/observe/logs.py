"""Adds the running job to log records, and formats records as JSON."""

from __future__ import annotations

import contextlib
import json
import logging
import math
import os
import stat
import traceback
from collections.abc import Iterable
from datetime import UTC, datetime
from select import PIPE_BUF
from typing import TextIO

from rowcall.context import running

JOB_FIELDS = (
    *("job_id", "job_type", "job_queue", "job_attempt", "worker", "duration_ms", "error_code", "trace_id", "span_id"),
)

_USUAL = {*vars(logging.makeLogRecord({})), "message", "asctime", "taskName", *JOB_FIELDS}
_DEEPEST = 5
_LONGEST_NUMBER = 2**53  # many JSON parsers round larger numbers


class JobLogFilter(logging.Filter):
    """Adds the fields of the running job to every record, whichever logger a handler's code uses.

    handler = logging.StreamHandler()
    handler.addFilter(JobLogFilter())
    """

    def filter(self, record: logging.LogRecord) -> bool:
        attempt = running.get(None)
        if attempt is not None and not hasattr(record, "job_id"):
            for name, value in attempt.log_fields.items():
                setattr(record, name, value)
        return True


class GroupHandler(logging.StreamHandler[TextIO]):
    """The handler of `rowcall work`, on standard error. It can write the lines of many jobs at once."""

    def __init__(self) -> None:
        super().__init__()
        self.addFilter(JobLogFilter())
        self._writes_to_pipe = False
        with contextlib.suppress(OSError, ValueError, AttributeError):  # there may be none, or one without a number
            self._writes_to_pipe = stat.S_ISFIFO(os.fstat(self.stream.fileno()).st_mode)

    def write_lines(self, lines: Iterable[str]) -> None:
        """Write lines at once, or to a pipe in parts: a long write could be cut by that of another process."""
        ended = [f"{line}{self.terminator}" for line in lines]
        at_once = len(ended)
        if self._writes_to_pipe and ended:
            at_once = max(1, PIPE_BUF // max(len(line.encode("utf-8", "backslashreplace")) for line in ended))
        for start in range(0, len(ended), at_once or 1):
            self._write("".join(ended[start : start + at_once]))

    def _write(self, text: str) -> None:
        with self.lock or contextlib.nullcontext():
            try:
                self.stream.write(text)
                self.flush()
            except Exception:  # as for a single record: a log that cannot be written ends no worker
                self.handleError(logging.makeLogRecord({"msg": text}))


def group_handler(logger: logging.Logger) -> GroupHandler | None:
    """Return the handler of `rowcall work`, unless something of the app sees or changes each INFO record, too."""
    handlers: list[logging.Handler] = []
    at: logging.Logger | None = logger
    while at is not None:
        handlers += at.handlers
        at = at.parent if at.propagate else None
    if (
        len(handlers) == 1
        and isinstance(handler := handlers[0], GroupHandler)
        and (len(handler.filters), handler.level, len(logger.filters)) == (1, logging.NOTSET, 0)
        and logging.getLogRecordFactory() is logging.LogRecord
        and logging.Logger.callHandlers.__module__ == logging.__name__  # Sentry replaces it
    ):
        return handler
    return None


class JsonLogFormatter(logging.Formatter):
    """Formats a record as one line of JSON: `time`, `level`, `logger`, `message`, `pid`, and its other fields."""

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, object] = {
            "time": _moment(record),
            "level": record.levelname,
            "logger": record.name,
            "message": _message(record),
            "pid": record.process,
        }
        for name in JOB_FIELDS:
            if (value := getattr(record, name, None)) is not None:
                fields[name] = value
        if record.exc_info and record.exc_info[1] is not None:
            fields |= _exception(record.exc_info[1])
        if record.stack_info:
            fields["stack"] = record.stack_info
        if extra := {name: value for name, value in vars(record).items() if name not in _USUAL}:
            fields["extra"] = extra
        return json.dumps(_plain(fields))


def _moment(record: logging.LogRecord) -> str:
    return f"{datetime.fromtimestamp(record.created, UTC):%Y-%m-%dT%H:%M:%S}.{int(record.msecs):03}Z"


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:  # the arguments do not fit the placeholders: show both
        return f"{_shown(record.msg)} {_shown(record.args)}"


def _exception(error: BaseException) -> dict[str, object]:
    try:
        lines = "".join(traceback.format_exception(error))
    except Exception as broken:
        lines = f"could not format the traceback: {type(broken).__name__}"
    return {"exception": type(error).__name__, "exception_message": _shown(error, str), "traceback": lines}


def _plain(value: object, depth: int = 0) -> object:
    """Return the value as JSON types; use `repr` for what JSON does not have."""
    match value:
        case None | bool():
            return value
        case str():
            return value.encode("utf-8", "replace").decode()
        case int() if abs(value) <= _LONGEST_NUMBER:
            return int(value)
        case float() if math.isfinite(value):
            return float(value)
        case dict() if depth < _DEEPEST:
            return {_key(key): _plain(item, depth + 1) for key, item in [*value.items()]}
        case list() | tuple() | set() | frozenset() if depth < _DEEPEST:
            return [_plain(item, depth + 1) for item in [*value]]
    return _plain(_shown(value))


def _key(key: object) -> str:
    return str(_plain(key if isinstance(key, str) else _shown(key)))


def _shown(value: object, how: type[str] | None = None) -> str:
    try:
        return how(value) if how is not None else repr(value)
    except Exception as broken:
        return f"<{type(value).__name__} that cannot be shown: {type(broken).__name__}>"

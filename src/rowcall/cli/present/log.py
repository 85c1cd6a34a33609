"""The lines of a worker's log: time in UTC, level, process id, job and message."""

from __future__ import annotations

import logging
import sys
import threading
from datetime import UTC, datetime

from rowcall.base.text import one_line, printable
from rowcall.observe.logs import GroupHandler, JobLogFilter, JsonLogFormatter


class JobFormatter(logging.Formatter):
    """One line for a record, with the job that it carries: `… INFO     [9108] job 12 send_email attempt 2: sent`.

    Control characters are escaped. Further lines, such as those of a traceback, are indented, so that none looks like a
    record.
    """

    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record)).replace("\n", "\n    ")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 (logging names it)
        return f"{_moment(record)} {record.levelname:8} [{record.process}] {_about(record)}{record.message}"


def set_up(level: str, form: str | None = None) -> None:
    """Log to standard error, unless the app has set up logging itself. A given `form` applies in any case."""
    handler = GroupHandler()
    handler.setFormatter(_formatter(form))
    logging.basicConfig(level=level.upper(), handlers=[handler])
    if form is not None:
        _reshape(handler)
        logging.captureWarnings(form == "json")
        if form == "json":
            threading.excepthook = _log_thread


def _log_thread(ended: threading.ExceptHookArgs) -> None:
    """Log an exception that ended a thread."""
    if ended.exc_type is SystemExit or ended.exc_value is None:
        return
    name = ended.thread.name if ended.thread is not None else "?"
    logging.getLogger("rowcall").error("thread %s ended with an exception", name, exc_info=ended.exc_value)


def _formatter(form: str | None) -> logging.Formatter:
    return JsonLogFormatter() if form == "json" else JobFormatter()


def _reshape(ours: logging.Handler) -> None:
    """Set the form of the app's handlers that write to the terminal; its other handlers stay as they are."""
    root = logging.getLogger()
    streams = [handler for handler in root.handlers if _writes_to_terminal(handler)]
    if not streams:
        root.addHandler(ours)
    for handler in streams:
        if handler is not ours:
            handler.setFormatter(ours.formatter)
            handler.addFilter(JobLogFilter())


def _writes_to_terminal(handler: logging.Handler) -> bool:
    return isinstance(handler, logging.StreamHandler) and handler.stream in (sys.stderr, sys.stdout)


def _moment(record: logging.LogRecord) -> str:
    return f"{datetime.fromtimestamp(record.created, UTC):%Y-%m-%d %H:%M:%S}.{int(record.msecs):03}Z"


def _about(record: logging.LogRecord) -> str:
    """Return the job of a record, unless the message already begins with it."""
    job_id: object = getattr(record, "job_id", None)
    if job_id is None or record.message.startswith(f"job {job_id} "):
        return ""
    task, attempt = getattr(record, "job_type", None), getattr(record, "job_attempt", None)
    said = f"job {job_id}" if task is None else f"job {job_id} {one_line(str(task))}"
    return f"{said}: " if attempt is None else f"{said} attempt {attempt}: "

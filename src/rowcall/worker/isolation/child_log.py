"""Sends the log of a child process, `ctx.log` included, to the worker."""

from __future__ import annotations

import logging
from collections.abc import Callable

from rowcall.context import logger
from rowcall.worker.isolation.messages import Logged

_USUAL = {*vars(logging.makeLogRecord({})), "message", "asctime"}


def forward_log(send: Callable[[Logged], None]) -> None:
    logger.addHandler(_Forward(send))
    logger.propagate = False


class _Forward(logging.Handler):
    def __init__(self, send: Callable[[Logged], None]) -> None:
        super().__init__()
        self._forward = send
        self._formatter = logging.Formatter()

    def emit(self, record: logging.LogRecord) -> None:
        try:
            fields: dict[str, object] = {
                name: value
                for name, value in vars(record).items()
                if name not in _USUAL and isinstance(value, str | int | float | None)
            }
            text = self._formatter.format(record).encode("utf-8", "replace").decode()  # with the traceback, if any
            self._forward(Logged(record.levelno, text, fields))
        except Exception:
            self.handleError(record)

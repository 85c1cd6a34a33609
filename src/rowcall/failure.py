"""What is kept of an exception: a code to count by, a short detail, a bounded traceback."""

from __future__ import annotations

import traceback

from rowcall.blobs import BlobUnreadable
from rowcall.lifecycle import Raised
from rowcall.text import CODE_LENGTH, DETAIL_LENGTH, storable

TRACEBACK_LENGTH = 8 * 1024


def raised(error: BaseException) -> Raised:
    """The outcome of a handler that ended with an exception."""
    return Raised(error, code_of(error), detail_of(error), traceback_of(error))


def code_of(error: BaseException) -> str:
    """
    >>> code_of(ZeroDivisionError())
    'INTERNAL:ZeroDivisionError'
    """
    if isinstance(error, BlobUnreadable):
        return error.code
    return storable(f"INTERNAL:{type(error).__name__}", CODE_LENGTH)


def detail_of(error: BaseException) -> str:
    try:
        message = str(error)
    except Exception as broken:
        message = f"its text cannot be made: {type(broken).__name__}"
    return storable(message or type(error).__name__, DETAIL_LENGTH)


def traceback_of(error: BaseException) -> str:
    try:
        lines = traceback.format_exception(error)
    except Exception as broken:
        lines = [f"its traceback cannot be made: {type(broken).__name__}"]
    return storable("".join(lines), TRACEBACK_LENGTH)

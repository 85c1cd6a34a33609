"""Error codes of exceptions, `CATEGORY:SUBCATEGORY`, from tables of class names.

A class is looked up by its full name, then its bases, so that no library must be imported to recognise its errors.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Callable
from http import HTTPStatus

from rowcall.base.text import CODE_LENGTH
from rowcall.domain.errors import Retry


def _table(lines: str) -> dict[str, str]:
    """Return the code of each name. A line has a code and its names."""
    return {name: code for code, *names in map(str.split, lines.strip().splitlines()) for name in names}


# asyncio, socket and concurrent.futures raise the built-in TimeoutError; the first base of ConnectTimeout is
# ConnectionError; programs raise the classes of the OS codes without an errno
BY_TYPE = _table(
    """
    TIMEOUT:OPERATION              builtins.TimeoutError multiprocessing.context.TimeoutError
    TIMEOUT:SUBPROCESS             subprocess.TimeoutExpired
    TIMEOUT:STEP                   rowcall.StepTimeout
    TIMEOUT:UPSTREAM_API           httpx.TimeoutException requests.exceptions.Timeout
    TIMEOUT:UPSTREAM_API           requests.exceptions.ConnectTimeout urllib3.exceptions.TimeoutError
    TIMEOUT:DB_POOL                psycopg_pool.PoolTimeout sqlalchemy.exc.TimeoutError
    DEPENDENCY:CONNECTION          builtins.ConnectionError httpx.NetworkError httpx.ProxyError
    DEPENDENCY:CONNECTION          requests.exceptions.ConnectionError urllib3.exceptions.NewConnectionError
    DEPENDENCY:CONNECTION          urllib3.exceptions.ProxyError
    DEPENDENCY:CONNECTION_REFUSED  builtins.ConnectionRefusedError
    DEPENDENCY:CONNECTION_RESET    builtins.ConnectionResetError builtins.ConnectionAbortedError
    DEPENDENCY:CONNECTION_RESET    builtins.BrokenPipeError
    DEPENDENCY:DNS                 socket.gaierror urllib3.exceptions.NameResolutionError
    DEPENDENCY:TLS                 ssl.SSLError requests.exceptions.SSLError urllib3.exceptions.SSLError
    DEPENDENCY:PROTOCOL            http.client.HTTPException httpx.ProtocolError
    DEPENDENCY:PROTOCOL            requests.exceptions.ChunkedEncodingError urllib3.exceptions.ProtocolError
    DEPENDENCY:DB_REFUSED          rowcall.DataRefused
    PAYLOAD:BLOB_MISSING           rowcall.BlobMissing
    INVALID_INPUT:CANNOT_DECRYPT   rowcall.CannotDecrypt
    PAYLOAD:BLOB_DAMAGED           rowcall.BlobDamaged
    INVALID_INPUT:SCHEMA_MISMATCH  pydantic_core._pydantic_core.ValidationError msgspec.ValidationError
    INVALID_INPUT:SCHEMA_MISMATCH  django.core.exceptions.ValidationError
    INVALID_INPUT:NOT_JSON         json.decoder.JSONDecodeError
    RESOURCE:OUT_OF_MEMORY         builtins.MemoryError
    INTERNAL:ASSERTION_FAILED      builtins.AssertionError
    OS:ENOENT                      builtins.FileNotFoundError
    OS:EEXIST                      builtins.FileExistsError
    OS:EISDIR                      builtins.IsADirectoryError
    OS:ENOTDIR                     builtins.NotADirectoryError
    """
)

BY_ERRNO = _table(
    """
    RESOURCE:DISK_FULL             ENOSPC EDQUOT
    RESOURCE:OUT_OF_MEMORY         ENOMEM
    RESOURCE:TOO_MANY_FILES        EMFILE ENFILE
    TIMEOUT:OPERATION              ETIMEDOUT
    DEPENDENCY:CONNECTION_REFUSED  ECONNREFUSED
    DEPENDENCY:CONNECTION_RESET    ECONNRESET ECONNABORTED EPIPE
    DEPENDENCY:UNREACHABLE         EHOSTUNREACH EHOSTDOWN ENETUNREACH ENETDOWN
    """
)

BY_SQLITE_CODE: dict[int, str] = {
    5: "DEPENDENCY:DB_LOCKED",  # SQLITE_BUSY
    6: "DEPENDENCY:DB_LOCKED",  # SQLITE_LOCKED
    7: "RESOURCE:OUT_OF_MEMORY",  # SQLITE_NOMEM
    10: "DEPENDENCY:DB_UNAVAILABLE",  # SQLITE_IOERR
    13: "RESOURCE:DISK_FULL",  # SQLITE_FULL
    14: "DEPENDENCY:DB_UNAVAILABLE",  # SQLITE_CANTOPEN
}

BY_SQLSTATE = _table(
    """
    DEPENDENCY:DB_LOCKED       55P03
    DEPENDENCY:DB_DEADLOCK     40P01
    DEPENDENCY:DB_CONFLICT     40001
    TIMEOUT:DB_QUERY           57014
    RESOURCE:DISK_FULL         53100
    RESOURCE:OUT_OF_MEMORY     53200
    DEPENDENCY:DB_UNAVAILABLE  53300 57P01 57P02 57P03
    """
)

DB_UNAVAILABLE = "DEPENDENCY:DB_UNAVAILABLE"
_DEEPEST = 8  # errors within errors
_STATUSES = frozenset(int(status) for status in HTTPStatus)
_ODD = re.compile(r"[^\w.-]")

RETRY_REQUESTED_CODE = "RETRY:REQUESTED"

OwnCode = Callable[[BaseException], str | None]


def code_of(error: BaseException, own: OwnCode = lambda error: None) -> str:
    """Return the code of an exception. `own` comes before the tables.

    >>> code_of(TimeoutError()), code_of(FileNotFoundError(2, "gone")), code_of(ZeroDivisionError())
    ('TIMEOUT:OPERATION', 'OS:ENOENT', 'INTERNAL:ZeroDivisionError')
    """
    error = retried(error)
    if isinstance(error, Retry):
        return RETRY_REQUESTED_CODE
    try:
        known = _known(error, own, 0)
    except Exception:  # a user's class with attributes that raise
        known = None
    return known or internal_code(type(error))


def retried(error: BaseException) -> BaseException:
    """Return the error that is retried by `raise Retry(…) from error`, or the exception itself."""
    return error.__cause__ if isinstance(error, Retry) and error.__cause__ is not None else error


def internal_code(kind: type[BaseException]) -> str:
    """
    >>> internal_code(KeyError)
    'INTERNAL:KeyError'
    """
    return f"INTERNAL:{_ODD.sub('_', kind.__name__) or '_'}"[:CODE_LENGTH]


def _known(error: BaseException, own: OwnCode, depth: int) -> str | None:
    if depth > _DEEPEST:
        return None
    if (code := own(error)) is not None:
        return code
    if isinstance(error, BaseExceptionGroup):
        return _shared(error, own, depth)
    for kind in type(error).__mro__:
        name = f"{kind.__module__}.{kind.__qualname__}"
        if (ask := _ASKED.get(name)) is not None and (code := ask(error)) is not None:
            return code
        if name in BY_TYPE:
            return BY_TYPE[name]
        if (open_up := _WRAPPERS.get(name)) is not None:
            inner = open_up(error)
            code = _known(inner, own, depth + 1) if isinstance(inner, BaseException) else None
            if code is not None:
                return code
        if name in _WHERE_UNKNOWN:
            return _WHERE_UNKNOWN[name]
    return None


def _shared(group: BaseExceptionGroup[BaseException], own: OwnCode, depth: int) -> str | None:
    """Return the code that all members of a group have, if any."""
    codes = {_known(error, own, depth + 1) or internal_code(type(error)) for error in group.exceptions}
    return codes.pop() if len(codes) == 1 else None


def _errno_code(error: BaseException) -> str | None:
    number: object = getattr(error, "errno", None)
    name = errno.errorcode.get(number) if isinstance(number, int) else None
    return None if name is None else BY_ERRNO.get(name, f"OS:{name}")


def _sqlite_code(error: BaseException) -> str | None:
    code: object = getattr(error, "sqlite_errorcode", None)
    return BY_SQLITE_CODE.get(code & 0xFF) if isinstance(code, int) else None


def _sqlstate_code(error: BaseException) -> str | None:
    state: object = getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)
    if not isinstance(state, str):
        return None
    return DB_UNAVAILABLE if state.startswith("08") else BY_SQLSTATE.get(state)


def _disconnected_code(error: BaseException) -> str | None:
    """Without a connection to a server, drivers have no SQLSTATE."""
    nameless = not (getattr(error, "sqlstate", None) or getattr(error, "pgcode", None))
    return DB_UNAVAILABLE if nameless else _sqlstate_code(error)


def _response_code(error: BaseException) -> str | None:
    return http_code(getattr(getattr(error, "response", None), "status_code", None))


def _status_code(error: BaseException) -> str | None:
    return http_code(getattr(error, "code", None))


def http_code(status: object) -> str | None:
    """Return the code of an HTTP status. Statuses without a name are grouped by hundred, to keep the codes few.

    >>> http_code(404), http_code(599), http_code(None)
    ('HTTP:404', 'HTTP:5XX', None)
    """
    if not isinstance(status, int) or not 100 <= status <= 599:
        return None
    return f"HTTP:{int(status)}" if status in _STATUSES else f"HTTP:{status // 100}XX"


_ASKED: dict[str, Callable[[BaseException], str | None]] = {
    **{f"builtins.{name}": _errno_code for name in ("OSError", "FileNotFoundError", "FileExistsError")},
    **{f"builtins.{name}": _errno_code for name in ("IsADirectoryError", "NotADirectoryError")},
    "sqlite3.Error": _sqlite_code,
    "psycopg.OperationalError": _disconnected_code,
    "psycopg.Error": _sqlstate_code,
    "psycopg2.OperationalError": _disconnected_code,
    "psycopg2.Error": _sqlstate_code,
    "asyncpg.exceptions._base.PostgresError": _sqlstate_code,
    "httpx.HTTPStatusError": _response_code,
    "requests.exceptions.HTTPError": _response_code,
    "urllib.error.HTTPError": _status_code,
}

_WRAPPERS: dict[str, Callable[[BaseException], object]] = {
    "sqlalchemy.exc.DBAPIError": lambda error: getattr(error, "orig", None),
    "django.db.utils.Error": lambda error: error.__cause__,
    "rowcall.StoreUnavailable": lambda error: error.__cause__,
    "urllib.error.URLError": lambda error: getattr(error, "reason", None),
    "urllib3.exceptions.MaxRetryError": lambda error: getattr(error, "reason", None),
}

_WHERE_UNKNOWN = {
    "rowcall.StoreUnavailable": DB_UNAVAILABLE,
    "urllib.error.URLError": "DEPENDENCY:CONNECTION",
    "urllib3.exceptions.MaxRetryError": "DEPENDENCY:CONNECTION",
}

"""Explain PostgreSQL's errors: what is wrong, and what to do."""

from __future__ import annotations

import difflib
import re

import psycopg
from psycopg import errors

from rowcall.base.urls import SECRET, is_clear, redacted, shown
from rowcall.domain.errors import (
    MISSING_ADVICE,
    MOVED,
    Conflict,
    DataRefused,
    InvalidOption,
    MovedTo,
    RowcallError,
    SchemaMismatch,
    StoreUnavailable,
)

# primary keys with a sequence
_SEQUENCES = ("job_pkey", "attempt_pkey", "event_pkey", "tally_pkey", "history_pkey")
# the server ended the session: shutdown, crash, or a timeout of a session or transaction
_ENDED = {"57P01", "57P02", "57P03", "57P05", "25P03", "25P04"}


class NoReply(psycopg.OperationalError):
    """The server was silent for too long, and the connection was dropped."""


def is_lost(error: psycopg.Error) -> bool:
    """Return whether the connection is lost."""
    if isinstance(error, errors.PipelineAborted):
        return False
    if error.sqlstate is not None and (error.sqlstate in _ENDED or error.sqlstate.startswith("08")):
        return True
    return isinstance(error, psycopg.OperationalError | psycopg.InterfaceError) and error.sqlstate is None


def is_stale(error: psycopg.Error) -> bool:
    """Return whether the session's prepared statements are useless: tables changed, or a pooler was not noticed."""
    if isinstance(error, errors.InvalidSqlStatementName | errors.DuplicatePreparedStatement):
        return True
    return isinstance(error, errors.FeatureNotSupported) and "cached plan" in str(error)


def is_starting(error: Exception) -> bool:
    """Return whether a server says that it is starting or stopping, or is not a primary, which it may soon be."""
    return "the database system is" in str(error) or is_standby(error)


def is_standby(error: Exception) -> bool:
    """Return whether the URL asks for a primary, and a standby has replied."""
    return "session is read-only" in str(error) or "server is in hot standby mode" in str(error)


def explained(error: psycopg.Error, name: str) -> RowcallError:
    """Return Rowcall's error for an error of psycopg."""
    message = _first_line(error)
    if isinstance(error, NoReply):
        return StoreUnavailable(f"{name}: {message}; the connection was dropped", _SILENT)
    if is_lost(error):
        return StoreUnavailable(f"{name}: the connection was lost ({message})", "Is the server up and reachable?")
    if is_stale(error):
        return Conflict(f"{name}: the tables have changed ({message})", _CALL_AGAIN)
    match error:
        case errors.InFailedSqlTransaction() | errors.PipelineAborted():
            return InvalidOption("connection", "is in a transaction that has already failed; roll it back first")
        case errors.SerializationFailure() | errors.DeadlockDetected():
            return Conflict(f"{name}: another transaction changed the same rows ({message})", _CALL_AGAIN)
        case errors.UniqueViolation() if (error.diag.constraint_name or "").endswith(_SEQUENCES):
            # plain SQL wrote a row with that id; the sequence has reached it, and continues after it
            return Conflict(f"{name}: the next id is already used by plain SQL ({message})", _CALL_AGAIN)
        case errors.LockNotAvailable():
            return Conflict(f"{name}: could not get a lock in time ({message})", _CALL_AGAIN)
        case errors.QueryCanceled():
            return StoreUnavailable(
                f"{name}: the server cancelled the statement ({message})",
                "Nothing was written. If statement_timeout did that, raise it for this user",
            )
        case errors.UndefinedTable() | errors.UndefinedColumn() | errors.UndefinedFunction():
            return SchemaMismatch(0, 1, f"{message}; {MISSING_ADVICE}", f"{name} does not have the expected tables")
        case errors.InvalidSchemaName():
            return StoreUnavailable(f"{name}: {message}", "Create the schema first, or check search_path in the URL")
        case errors.InsufficientPrivilege():
            return StoreUnavailable(f"{name}: {message}", "Grant it to this user, or migrate as the tables' owner")
        case errors.ReadOnlySqlTransaction():
            return StoreUnavailable(f"{name} is read-only ({message})", _READ_ONLY)
        case errors.DiskFull() | errors.OutOfMemory():
            return StoreUnavailable(f"{name}: {message}", "Nothing of this call was written; free space on the server")
        case errors.TooManyConnections():
            return StoreUnavailable(f"{name}: {message}", "Raise max_connections, lower pool_size, or use a pooler")
        case errors.InvalidPassword() | errors.InvalidAuthorizationSpecification() | errors.InvalidCatalogName():
            return StoreUnavailable(f"{name}: {message}", "Check the URL's user, password and database")
        case psycopg.DatabaseError() if MOVED in message:
            return MovedTo(name)
        case psycopg.DataError() | psycopg.IntegrityError():
            return DataRefused(f"{name} refuses the values: {message}")
        case psycopg.OperationalError():
            return StoreUnavailable(f"{name}: {message}")
        case _:
            return RowcallError(f"{name}: {message}" + (f" ({error.sqlstate})" if error.sqlstate else ""))


_READ_ONLY = (
    "Is it a standby? Connect to the primary: name all hosts in the URL, and add target_session_attrs=read-write"
)
_CALL_AGAIN = "Nothing was written; call again"
_SILENT = "Is the server overloaded, its disk stalled, or a row locked for long? Otherwise raise busy_timeout"
_ESCAPING = "In a password, write %, @, /, ?, # and spaces as %25, %40, %2F, %3F, %23 and %20"


def of_any_driver(error: Exception, name: str) -> Exception:
    """Do what `explained` does for errors of psycopg, asyncpg and psycopg2; return others unchanged."""
    if isinstance(error, psycopg.Error):
        return explained(error, name)
    state = getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)
    if not isinstance(state, str):
        # for a lost connection, psycopg2 has no code, and asyncpg has a class
        is_lost = type(error).__name__ in ("OperationalError", "ConnectionDoesNotExistError")
        return StoreUnavailable(f"{name}: the connection was lost ({error})") if is_lost else error
    try:
        kind = errors.lookup(state)
    except KeyError:
        kind = psycopg.DatabaseError
    return explained(kind(str(error)), name)


def check_url(url: str) -> None:
    """Refuse a URL in which a part of the password may be read as the host."""
    if not is_clear(url):
        raise StoreUnavailable(f"{shown(url)}: the URL cannot be parsed", _ESCAPING)


def cannot_connect(error: psycopg.Error | ValueError, url: str) -> StoreUnavailable:
    """Return the error for a failed connection attempt. The original text may show the password: do not chain it."""
    name = shown(url)
    if not isinstance(error, psycopg.Error):  # a host name that cannot be encoded, for example
        return StoreUnavailable(f"{name}: the URL cannot be parsed", _ESCAPING)
    message = redacted(_first_line(error), url)
    if isinstance(error, psycopg.ProgrammingError):
        problem = f"{name}: the URL cannot be parsed ({message.partition(':')[0]})"
        return StoreUnavailable(problem, _advice_on_parameter(message, name) or _ESCAPING)
    advice = "Is the server up, and is the URL right?"
    if "password" in message or "authentication" in message or ("role" in message and "does not exist" in message):
        advice = "Check the URL's user and password, and the server's pg_hba.conf"
    elif "database" in message and "does not exist" in message:
        advice = "Create it first (createdb), or check the URL"
    elif is_standby(error):
        advice = "No host of the URL is a primary now: wait for the end of the failover, or promote a standby"
    elif re.search(r"invalid \w+ value", message):
        advice = "Correct that parameter of the URL"
    elif "too many c" in message or "remaining connection slots" in message:
        advice = "Raise max_connections, lower pool_size, or put a pooler in between (docs: PostgreSQL, pooling)"
    return StoreUnavailable(f"{name}: cannot connect ({message})", advice)


def _advice_on_parameter(said: str, name: str) -> str:
    """Return advice for a parameter that is visible in the URL: a part of the password may look like one, too."""
    match = re.search(r'(invalid|separator).* URI query parameter: "(\w+)"|bad value for (\w+):', said)
    if match is None:
        return ""
    fault, parameter = match[1], match[2] or match[3]
    if not re.search(rf"[?&]{parameter}(?:=|&|$)", name):
        return ""
    if fault == "invalid":
        known = [option.keyword.decode() for option in psycopg.pq.Conninfo.get_defaults()]
        close = difflib.get_close_matches(parameter, known, 1)
        return f"unknown parameter {parameter}" + (f"; did you mean {close[0]}?" if close else "")
    if fault == "separator":
        return f"Write it as {parameter}=value, with %3D for an = in the value"
    return f"{parameter} must be an integer"


def _first_line(error: psycopg.Error) -> str:
    text = error.diag.message_primary or str(error)
    line = next((line.strip() for line in text.splitlines() if line.strip()), type(error).__name__)
    return SECRET.sub(r"\1=***", line)

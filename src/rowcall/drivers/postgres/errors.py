"""What went wrong with a PostgreSQL server, in words a tired person can act on."""

from __future__ import annotations

import difflib
import re

import psycopg
from psycopg import errors

from rowcall.base.urls import SECRET, is_clear, redacted, shown
from rowcall.domain.errors import (
    MISSING_ADVICE,
    Conflict,
    DataRefused,
    InvalidOption,
    RowcallError,
    SchemaMismatch,
    StoreUnavailable,
)

# of tables whose ids are counted
_COUNTED = ("job_pkey", "attempt_pkey", "event_pkey", "tally_pkey", "history_pkey")
# sessions that the server ends: shutdowns, crashes, and time-outs of sessions and transactions
_ENDED = {"57P01", "57P02", "57P03", "57P05", "25P03", "25P04"}


def is_lost(error: psycopg.Error) -> bool:
    """Whether the connection went with it."""
    if isinstance(error, errors.PipelineAborted):
        return False
    if error.sqlstate is not None and (error.sqlstate in _ENDED or error.sqlstate.startswith("08")):
        return True
    return isinstance(error, psycopg.OperationalError | psycopg.InterfaceError) and error.sqlstate is None


def is_stale(error: psycopg.Error) -> bool:
    """Whether what the session had prepared is of no use any more: tables changed, or a pooler was not noticed."""
    if isinstance(error, errors.InvalidSqlStatementName | errors.DuplicatePreparedStatement):
        return True
    return isinstance(error, errors.FeatureNotSupported) and "cached plan" in str(error)


def is_starting(error: Exception) -> bool:
    """Whether the server says that it will soon be there."""
    return "the database system is" in str(error)


def explained(error: psycopg.Error, name: str) -> RowcallError:
    """The error of ours for an error of PostgreSQL's."""
    said = _first_line(error)
    if is_lost(error):
        return StoreUnavailable(f"{name}: the connection was lost ({said})", "Is the server up and reachable?")
    if is_stale(error):
        return Conflict(f"{name}: the tables have changed meanwhile ({said})", "Nothing was written; call again")
    match error:
        case errors.InFailedSqlTransaction() | errors.PipelineAborted():
            return InvalidOption("connection", "is in a transaction that has already failed; roll it back first")
        case errors.SerializationFailure() | errors.DeadlockDetected():
            return Conflict(f"{name}: somebody else changed the same rows ({said})", "Nothing was written; call again")
        case errors.UniqueViolation() if (error.diag.constraint_name or "").endswith(_COUNTED):
            # plain SQL has given that id to a row; the counter has come to it, and goes on from there
            return Conflict(f"{name}: plain SQL has taken the next id ({said})", "Nothing was written; call again")
        case errors.LockNotAvailable():
            return Conflict(f"{name}: a lock could not be had in time ({said})", "Nothing was written; call again")
        case errors.QueryCanceled():
            return StoreUnavailable(
                f"{name}: the server cancelled the statement ({said})",
                "Nothing was written. If statement_timeout did that, raise it for this user",
            )
        case errors.UndefinedTable() | errors.UndefinedColumn() | errors.UndefinedFunction():
            return SchemaMismatch(0, 1, f"{said}; {MISSING_ADVICE}", f"{name} is not as this code needs it")
        case errors.InvalidSchemaName():
            return StoreUnavailable(f"{name}: {said}", "Make the schema first, or check search_path in the URL")
        case errors.InsufficientPrivilege():
            return StoreUnavailable(f"{name}: {said}", "Grant this user the right, or migrate as the tables' owner")
        case errors.ReadOnlySqlTransaction():
            return StoreUnavailable(f"{name} is read-only ({said})", "Is it a standby? Connect to the primary")
        case errors.DiskFull() | errors.OutOfMemory():
            return StoreUnavailable(f"{name}: {said}", "Nothing of this call was written; make room on the server")
        case errors.TooManyConnections():
            return StoreUnavailable(f"{name}: {said}", "Raise max_connections, lower pool_size, or use a pooler")
        case errors.InvalidPassword() | errors.InvalidAuthorizationSpecification() | errors.InvalidCatalogName():
            return StoreUnavailable(f"{name}: {said}", "Check the URL's user, password and database")
        case psycopg.DataError() | psycopg.IntegrityError():
            return DataRefused(f"{name} refuses the values: {said}")
        case psycopg.OperationalError():
            return StoreUnavailable(f"{name}: {said}")
        case _:
            return RowcallError(f"{name}: {said}" + (f" ({error.sqlstate})" if error.sqlstate else ""))


_ESCAPING = "In a password, %, @, /, ?, # and spaces are written as %25, %40, %2F, %3F, %23 and %20"


def of_any_driver(error: Exception, name: str) -> Exception:
    """`explained`, for errors of psycopg, asyncpg and psycopg2 alike; others as they are."""
    if isinstance(error, psycopg.Error):
        return explained(error, name)
    state = getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)
    if not isinstance(state, str):
        # psycopg2 has no code for a connection that was cut, asyncpg a class of its own
        is_lost = type(error).__name__ in ("OperationalError", "ConnectionDoesNotExistError")
        return StoreUnavailable(f"{name}: the connection was lost ({error})") if is_lost else error
    try:
        kind = errors.lookup(state)
    except KeyError:
        kind = psycopg.DatabaseError
    return explained(kind(str(error)), name)


def check_url(url: str) -> None:
    """Refuse a URL in which half a password may be taken for a host."""
    if not is_clear(url):
        raise StoreUnavailable(f"{shown(url)}: the URL cannot be read", _ESCAPING)


def cannot_connect(error: psycopg.Error | ValueError, url: str) -> StoreUnavailable:
    """For a connection that could not be made at all. Its own text may show the password: raise this alone."""
    name = shown(url)
    if not isinstance(error, psycopg.Error):  # a host name that cannot be encoded, for one
        return StoreUnavailable(f"{name}: the URL cannot be read", _ESCAPING)
    said = redacted(_first_line(error), url)
    if isinstance(error, psycopg.ProgrammingError):
        return StoreUnavailable(
            f"{name}: the URL cannot be read ({said.partition(':')[0]})", _advice_on_parameter(said, name) or _ESCAPING
        )
    advice = "Is the server up, and the URL right?"
    if "password" in said or "authentication" in said or ("role" in said and "does not exist" in said):
        advice = "Check the URL's user and password, and the server's pg_hba.conf"
    elif "database" in said and "does not exist" in said:
        advice = "Make it first (createdb), or check the URL"
    elif re.search(r"invalid \w+ value", said):
        advice = "Correct that parameter of the URL"
    elif "too many c" in said or "remaining connection slots" in said:
        advice = "Raise max_connections, lower pool_size, or put a pooler in between (docs: PostgreSQL, pooling)"
    return StoreUnavailable(f"{name}: no connection ({said})", advice)


def _advice_on_parameter(said: str, name: str) -> str:
    """For a parameter that can be seen in the URL: half a password may look like one, too."""
    found = re.search(r'(invalid|separator).* URI query parameter: "(\w+)"|bad value for (\w+):', said)
    if found is None:
        return ""
    fault, parameter = found[1], found[2] or found[3]
    if not re.search(rf"[?&]{parameter}(?:=|&|$)", name):
        return ""
    if fault == "invalid":
        known = [option.keyword.decode() for option in psycopg.pq.Conninfo.get_defaults()]
        close = difflib.get_close_matches(parameter, known, 1)
        return f"libpq knows no parameter {parameter}" + (f"; did you mean {close[0]}?" if close else "")
    if fault == "separator":
        return f"Write it as {parameter}=value, with %3D for an = in the value"
    return f"{parameter} wants a whole number"


def _first_line(error: psycopg.Error) -> str:
    text = error.diag.message_primary or str(error)
    line = next((line.strip() for line in text.splitlines() if line.strip()), type(error).__name__)
    return SECRET.sub(r"\1=***", line)

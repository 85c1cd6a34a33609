"""Explain the errors of MariaDB and MySQL: what is wrong, and what to do."""

from __future__ import annotations

import pymysql

from rowcall.base.urls import redacted, shown
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
from rowcall.drivers.caller.adapter import HALF_READ, several_statements

# the server has gone away, the connection was lost or ended, the server is stopping, a packet did not come
_LOST = {0, 1053, 1152, 1158, 1159, 1160, 1161, 1927, 2003, 2006, 2013, 2014, 2055, 4031}
# deadlock, lock wait, a row changed since it was read, a lock that was not waited for
_CONFLICTS = {1213, 1205, 1020, 1412, 3572}  # 1412: tables are being made
_INTERRUPTED = {1317, 1969, 3024}
_NO_TABLES = {1054, 1146, 1356}
_REFUSED_USER = {1044, 1045, 1049, 1698}
_NO_RIGHT = {1142, 1143, 1227, 1370, 1419}
_READ_ONLY = {1290, 1792, 1836}
_FULL = {3, 1021, 1041, 1114}
_TOO_MANY = {1040, 1203, 1226}
# rules of tables: of MariaDB, of MySQL, and raised by triggers
_BROKEN_RULES = {4025, 3819, 1644}

_NO_SAVEPOINT, _OUT_OF_SYNC = 1305, 2014

CALL_AGAIN = "Nothing was written; call again"
CALLER_ADVICE = "Your transaction has failed, and may be rolled back already: roll it back, and begin again"


def code_of(error: pymysql.MySQLError) -> int:
    code = error.args[0] if error.args else 0
    return code if isinstance(code, int) else 0


def is_lost(error: pymysql.MySQLError) -> bool:
    """Return whether the connection is lost."""
    return code_of(error) in _LOST


def is_conflict(error: pymysql.MySQLError) -> bool:
    """Return whether the same can succeed if it is tried again."""
    return code_of(error) in _CONFLICTS


def explained(error: pymysql.MySQLError, name: str) -> RowcallError:
    """Return Rowcall's error for an error of PyMySQL."""
    code = code_of(error)
    message = str(error.args[1]) if len(error.args) > 1 else str(error)
    if code in _LOST:
        return StoreUnavailable(f"{name}: the connection was lost ({message})", "Is the server up and reachable?")
    if code in _CONFLICTS:
        return Conflict(f"{name}: another transaction changed the same rows ({message})", CALL_AGAIN)
    if code in _INTERRUPTED:
        advice = "Nothing was written. If a time limit of the server did that, raise it for this user"
        return StoreUnavailable(f"{name}: the server cancelled the statement ({message})", advice)
    if code in _NO_TABLES:
        return SchemaMismatch(0, 1, f"{message}; {MISSING_ADVICE}", f"{name} does not have the expected tables")
    if code in _REFUSED_USER:
        return StoreUnavailable(f"{name}: {message}", "Check the URL's user, password and database")
    if code in _NO_RIGHT:
        return StoreUnavailable(f"{name}: {message}", "Grant it to this user, or migrate as the tables' owner")
    if code in _READ_ONLY:
        return StoreUnavailable(f"{name} is read-only ({message})", "Is it a replica? Connect to the primary")
    if code in _FULL:
        return StoreUnavailable(f"{name}: {message}", "Nothing of this call was written; free space on the server")
    if code in _TOO_MANY:
        return StoreUnavailable(f"{name}: {message}", "Raise max_connections, or lower pool_size")
    if MOVED in message:
        return MovedTo(name)
    if isinstance(error, pymysql.DataError | pymysql.IntegrityError) or code in _BROKEN_RULES:
        return DataRefused(f"{name} refuses the values: {message}")
    if isinstance(error, pymysql.OperationalError):
        return StoreUnavailable(f"{name}: {message}")
    return RowcallError(f"{name}: {message} ({code})")


def cannot_connect(error: pymysql.MySQLError, url: str) -> RowcallError:
    """Return the error for a failed connection attempt, without the password."""
    name, code = shown(url), code_of(error)
    message = redacted(str(error.args[-1]) if error.args else str(error), url)
    if code in _LOST:
        return StoreUnavailable(f"{name}: cannot connect ({message})", "Is the server up, and is the URL right?")
    return explained(type(error)(code, message), name)


def of_any_driver(error: Exception, name: str) -> Exception:
    """Return Rowcall's error for an error of any driver on a caller's connection; return any other error unchanged.

    They all have the server's number and its text, as errors of PyMySQL have.
    """
    if not isinstance(error, pymysql.MySQLError):
        kind = getattr(pymysql.err, type(error).__name__, None)
        if kind is None or len(error.args) != 2 or not isinstance(error.args[0], int):
            return error
        error = kind(*error.args)
    if code_of(error) == _NO_SAVEPOINT:
        return several_statements("this call takes")
    if code_of(error) == _OUT_OF_SYNC:
        return InvalidOption("connection", HALF_READ)
    found = explained(error, name)
    return Conflict(found.problem, CALLER_ADVICE) if isinstance(found, Conflict) else found

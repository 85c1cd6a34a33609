"""One connection to MariaDB or MySQL: how it is opened, and how it runs a plan in a transaction."""

from __future__ import annotations

import contextlib
import functools
import math
import select
import ssl
from collections.abc import Callable, Iterator
from typing import Any, TypeVar
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

import pymysql
from pymysql.constants import FIELD_TYPE
from pymysql.converters import conversions

from rowcall.base.clock import SYSTEM_CLOCK
from rowcall.base.effects import drive
from rowcall.base.urls import is_clear
from rowcall.domain.config import Config, shown
from rowcall.domain.errors import StoreUnavailable
from rowcall.drivers.group_commit import NothingWritten, OutcomeUnknown
from rowcall.drivers.mysql.errors import cannot_connect, explained, is_conflict, is_lost
from rowcall.drivers.mysql.placeholders import arranged
from rowcall.drivers.patience import current_patience
from rowcall.store.statement import Plan, Row, Statement

T = TypeVar("T")

MOST_TRIES = 10
LONGEST_PAUSE_SECONDS = 0.2

Notify = Callable[[bool], None]
"""Called after a commit; the argument says whether it may have made jobs due."""

LONGEST_CONNECT_SECONDS, SHORTEST_CONNECT_SECONDS = 10, 2
SHORTEST_REPLY_SECONDS = 1.0
LONGEST_LOCK_WAIT_SECONDS, LOCK_WAIT_SECONDS = 1, 50
MOST_AGGREGATED_BYTES = 2**30
MOST_RECURSIONS = 1_000_000  # a queue may have thousands of tasks
OLDEST_MARIADB, OLDEST_MYSQL = (10, 6), (8, 0, 17)  # the first one of MySQL with that collation
# texts in statements are compared with names, byte by byte; each server calls that collation in its own way
COLLATION = "/*M! utf8mb4_nopad_bin */ /*!80017 utf8mb4_0900_bin */"
URL_PARAMETERS = ("unix_socket", "ssl_ca", "ssl_cert", "ssl_key")

# set by us, so that no default of the server matters
SQL_MODE = (
    "STRICT_ALL_TABLES,NO_ZERO_DATE,NO_ZERO_IN_DATE,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION,PIPES_AS_CONCAT,"
    "NO_BACKSLASH_ESCAPES"
)
BEGIN = "start transaction"
BEGIN_SNAPSHOT = ("set transaction isolation level repeatable read", "start transaction with consistent snapshot")

_FORM = "mysql://user@host/database"
_ESCAPING = f"Write {_FORM}; in a password, write %, @, /, ?, # and spaces as %25, %40, %2F, %3F, %23 and %20"
_TLS_ADVICE = "ssl_ca, ssl_cert and ssl_key are the paths of PEM files that this process can read"
_SHA2_ADVICE = "pip install cryptography; or connect over TLS (ssl_ca) or a socket (unix_socket)"


def _number(value: str) -> int | float:
    return float(value) if "." in value else int(value)


_CONVERSIONS = {**conversions, FIELD_TYPE.NEWDECIMAL: _number, FIELD_TYPE.DECIMAL: _number}


def options_of(url: str) -> dict[str, Any]:
    """Return what PyMySQL calls the parts of a URL.

    >>> options_of("mysql://ann:a%40b@db-1:3307/shop?unix_socket=/run/db")["password"]
    'a@b'
    """
    parsed = _parsed(url)
    if parsed is None or not is_clear(url):
        raise StoreUnavailable(f"{shown(url)}: the URL cannot be parsed", _ESCAPING)
    parts, port, parameters = parsed
    if not parts.path.removeprefix("/"):
        raise StoreUnavailable(f"{shown(url)}: the URL names no database", f"Write {_FORM}")
    if unknown := sorted(parameters.keys() - set(URL_PARAMETERS)):
        advice = f"Known are {', '.join(URL_PARAMETERS)}"
        raise StoreUnavailable(f"{shown(url)}: the URL has the unknown parameter {unknown[0]}", advice)
    return {
        "host": unquote(parts.hostname or "localhost"),
        "port": port,
        "user": unquote(parts.username) if parts.username else None,
        "password": unquote(parts.password or ""),
        "database": unquote(parts.path.removeprefix("/")),
        **parameters,
    }


def _parsed(url: str) -> tuple[SplitResult, int, dict[str, str]] | None:
    try:
        parts = urlsplit(url)
        return parts, parts.port or 3306, dict(parse_qsl(parts.query, strict_parsing=bool(parts.query)))
    except ValueError:  # quotes what it takes for the port, which may be a password: no error may be chained to it
        return None


def pauses() -> Iterator[float]:
    """Yield the pauses between the tries of what met a conflict."""
    for tries in range(1, MOST_TRIES):
        yield SYSTEM_CLOCK.chance() * min(0.002 * 2**tries, LONGEST_PAUSE_SECONDS)


class PymysqlConnection(pymysql.Connection):  # type: ignore[misc]  # PyMySQL has no types
    """Loads the certificates of the system once per process: for each connection it would take longer than the rest."""

    def _create_ssl_ctx(self, options: dict[str, Any]) -> ssl.SSLContext:
        context: ssl.SSLContext = super()._create_ssl_ctx(options) if options else _default_tls()
        return context


@functools.cache
def _default_tls() -> ssl.SSLContext:
    context: ssl.SSLContext = pymysql.Connection(defer_connect=True).ctx
    return context


def connect(url: str, config: Config, *, hurried: bool = False) -> pymysql.Connection:
    """Return a connection in autocommit mode. A `hurried` one waits only briefly for locks."""
    options = options_of(url)
    name = shown(url)
    connect_seconds = max(SHORTEST_CONNECT_SECONDS, min(config.busy_timeout_seconds, LONGEST_CONNECT_SECONDS))
    try:
        raw = PymysqlConnection(
            **options,
            charset="utf8mb4",
            autocommit=True,
            sql_mode=SQL_MODE,
            connect_timeout=math.ceil(connect_seconds),
            conv=_CONVERSIONS,
            program_name="rowcall",
            defer_connect=True,
        )
    except OSError as error:  # its traceback has the password
        raise StoreUnavailable(f"{name}: cannot load the certificates ({error})", _TLS_ADVICE) from None
    try:
        try:
            raw.connect()
        except pymysql.MySQLError as error:
            _close_socket(raw)
            raise cannot_connect(error, url) from None  # its traceback has the password
        except RuntimeError as error:  # MySQL's way of checking passwords
            _close_socket(raw)
            raise StoreUnavailable(f"{name}: {error}", _SHA2_ADVICE) from None
        _set_up(raw, config, hurried=hurried)
    except pymysql.MySQLError as error:
        raw.close()
        raise explained(error, name) from error
    except BaseException:
        _close_socket(raw)
        raise
    return raw


def _close_socket(raw: pymysql.Connection) -> None:
    """Close what PyMySQL forgets to close if it cannot connect."""
    raw._force_close()


def check_version(version: str) -> None:
    """Raise `StoreUnavailable` for a server that lacks what the statements need."""
    number = version.partition("-")[0]
    kind, oldest = ("MariaDB", OLDEST_MARIADB) if "mariadb" in version.lower() else ("MySQL", OLDEST_MYSQL)
    if tuple(map(int, number.split("."))) < oldest:
        needed = ".".join(map(str, oldest))
        raise StoreUnavailable(f"{kind} {number} is too old; {needed} or newer is required", "Upgrade the server")


def _set_up(raw: pymysql.Connection, config: Config, *, hurried: bool) -> None:
    with raw.cursor() as cursor:
        cursor.execute("select version()")
        check_version(str(cursor.fetchone()[0]))
    settings = {
        "time_zone": "'+00:00'",
        "foreign_key_checks": "1",
        "group_concat_max_len": MOST_AGGREGATED_BYTES,
        # a join buffer would read, and lock, all rows of a small table
        "/*M! join_cache_level */ /*!80000 optimizer_switch */": "/*M! 0 */ /*!80000 'block_nested_loop=off' */",
        "/*M! max_recursive_iterations */ /*!80003 cte_max_recursion_depth */": MOST_RECURSIONS,
        "innodb_lock_wait_timeout": LONGEST_LOCK_WAIT_SECONDS if hurried else LOCK_WAIT_SECONDS,
    }
    with raw.cursor() as cursor:
        cursor.execute(f"set names utf8mb4 collate {COLLATION}")
        cursor.execute(
            "set session /*!80000 information_schema_stats_expiry = 0, */ "
            + ", ".join(f"{name} = {value}" for name, value in settings.items())
        )
        cursor.execute("set session transaction isolation level read committed")


def is_alive(raw: pymysql.Connection) -> bool:
    """Return whether an idle connection can still be used, as far as this side knows: without a round trip."""
    if not raw.open:
        return False
    poll = select.poll()
    poll.register(raw._sock.fileno(), select.POLLIN)
    return not poll.poll(0)  # all that can arrive on an idle connection is its end


class MysqlSession:
    """Runs plans on a connection that is checked out."""

    def __init__(self, raw: pymysql.Connection, config: Config, notify: Notify = lambda of_jobs: None) -> None:
        assert config.server is not None
        self._raw = raw
        self._notify = notify
        self._of_jobs = False
        self._name = shown(config.server.url)
        self._reply_seconds = max(SHORTEST_REPLY_SECONDS, config.busy_timeout_seconds)

    def execute(self, statement: Statement[object]) -> list[Row]:
        self._of_jobs |= statement.notifies is not None
        sql, values = arranged(statement.sql, statement.parameters)
        seconds = self._reply_seconds * current_patience()
        self._raw._read_timeout = None if seconds == math.inf else seconds
        with self._raw.cursor() as cursor:
            cursor.execute(sql, values)
            return list(cursor.fetchall()) if cursor.description is not None else []

    def _execute_alone(self, statement: Statement[object]) -> list[Row]:
        """Execute a statement that is a transaction, and repeat it after conflicts, such as with a change of tables."""
        for pause in pauses():
            try:
                return self.execute(statement)
            except pymysql.MySQLError as error:
                if not is_conflict(error):
                    raise
            SYSTEM_CLOCK.sleep(pause)
        return self.execute(statement)

    def run(self, plan: Plan[T], execute: Callable[[Statement[object]], list[Row]] | None = None) -> T:
        try:
            return drive(plan, execute or self.execute)
        except pymysql.MySQLError as error:
            raise self._explained(error) from error

    def read(self, plan: Plan[T], *, snapshot: bool = False, seconds: float | None = None) -> T:
        if not snapshot and seconds is None:
            return self.run(plan, self._execute_alone)
        try:
            if seconds is not None:
                self.limit(seconds)
            for statement in BEGIN_SNAPSHOT:
                self._raw.query(statement)
            result = drive(plan, self.execute)
            self._raw.query("commit")
            if seconds is not None:
                self.limit(0)
        except pymysql.MySQLError as error:
            self.roll_back()
            raise self._explained(error) from error
        except BaseException:
            self.roll_back()
            raise
        return result

    def limit(self, seconds: float) -> None:
        """Let the server end each statement after that time; 0: never. Each server has its own name for it."""
        milliseconds = round(seconds * 1000)
        self._raw.query(
            f"set session /*M! max_statement_time = {seconds:.3f} */ /*!80000 max_execution_time = {milliseconds} */"
        )

    def write(self, plan: Plan[T], *, one_statement: bool = False) -> T:
        """Run a plan in a transaction: all of it, or nothing."""
        if one_statement:
            try:
                result = drive(plan, self.execute)
            except pymysql.MySQLError as error:
                raise self._unsure(error) from error
            self._notify(self._of_jobs)
            return result
        self.begin()
        try:
            result = drive(plan, self.execute)
        except pymysql.MySQLError as error:
            self.roll_back()
            raise self._unwritten(error) from error
        except BaseException:
            self.roll_back()
            raise
        self.commit()
        return result

    def begin(self) -> None:
        """Begin a transaction, for `run` and then `commit` or `roll_back`."""
        try:
            self._raw.query(BEGIN)
        except pymysql.MySQLError as error:
            raise self._unwritten(error) from error

    def commit(self) -> None:
        try:
            self._raw.query("commit")
        except pymysql.MySQLError as error:
            self.roll_back()
            raise self._unsure(error) from error
        self._notify(self._of_jobs)

    def roll_back(self) -> None:
        """Also release the locks of the session, which outlive transactions, and its limits."""
        with contextlib.suppress(pymysql.MySQLError):
            if self._raw.open:
                self._raw.query("rollback")
                self._raw.query("do release_all_locks()")
                self.limit(0)

    def interrupt(self) -> None:
        """From another thread: cancel the running statement."""
        with contextlib.suppress(pymysql.MySQLError, StoreUnavailable), contextlib.closing(self._another()) as other:
            other.query(f"kill query {self._raw.thread_id()}")

    def _another(self) -> pymysql.Connection:
        raw = self._raw
        return PymysqlConnection(
            host=raw.host, port=raw.port, user=raw.user, password=raw.password, unix_socket=raw.unix_socket
        )

    def _explained(self, error: pymysql.MySQLError) -> Exception:
        if is_lost(error):
            _close_socket(self._raw)
        return explained(error, self._name)

    def _unwritten(self, error: pymysql.MySQLError) -> Exception:
        explained_error = self._explained(error)
        if is_lost(error) and isinstance(explained_error, StoreUnavailable):
            # after a silence, the call has waited long enough: it is not repeated
            kind = StoreUnavailable if "timed out" in str(error) else NothingWritten
            return kind(explained_error.problem, f"Nothing was written. {explained_error.advice}")
        return explained_error

    def _unsure(self, error: pymysql.MySQLError) -> Exception:
        """Explain an error at a moment when the server may already have committed."""
        explained_error = self._explained(error)
        if is_lost(error) and isinstance(explained_error, StoreUnavailable):
            return OutcomeUnknown(explained_error.problem)
        return explained_error


class MysqlConnection:
    """A connection for one thread, opened at its first use, and again after it was lost."""

    def __init__(self, config: Config, notify: Notify = lambda of_jobs: None, *, hurried: bool = False) -> None:
        assert config.server is not None
        self._url = config.server.url
        self._config = config
        self._notify = notify
        self._hurried = hurried
        self.times_opened = 0
        self._raw: pymysql.Connection | None = None

    def read(self, plan: Plan[T]) -> T:
        return self._session().read(plan)

    def write(self, plan: Plan[T], *, one_statement: bool = False) -> T:
        return self._session().write(plan, one_statement=one_statement)

    def change_counter(self) -> None:
        """Return None: a server has no such counter."""
        return

    def close(self) -> None:
        if self._raw is not None and self._raw.open:
            self._raw.close()
        self._raw = None

    def _session(self) -> MysqlSession:
        if self._raw is None or not is_alive(self._raw):
            self.close()
            self._raw = connect(self._url, self._config, hurried=self._hurried)
            self.times_opened += 1
        return MysqlSession(self._raw, self._config, self._notify)

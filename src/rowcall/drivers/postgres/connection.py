"""One connection to PostgreSQL: how it is opened, and how it runs a plan in a transaction."""

from __future__ import annotations

import contextlib
import math
import select
import weakref
from functools import partial
from typing import Any, TypeVar

import psycopg
from psycopg import capabilities, pq
from psycopg.abc import PQGen
from psycopg.types.numeric import Int8Dumper

from rowcall.base.clock import SYSTEM_CLOCK, jittered
from rowcall.base.effects import drive
from rowcall.domain.config import Config, Server, shown
from rowcall.domain.errors import StoreUnavailable
from rowcall.drivers.group_commit import NothingWritten, OutcomeUnknown
from rowcall.drivers.patience import current_patience, patience
from rowcall.drivers.postgres.errors import (
    NoReply,
    cannot_connect,
    check_url,
    explained,
    is_lost,
    is_stale,
    is_starting,
)
from rowcall.store.statement import Plan, Row, Statement

T = TypeVar("T")

OLDEST_SERVER = 130000
LONGEST_CONNECT_SECONDS, SHORTEST_CONNECT_SECONDS = 10, 2
SHORTEST_REPLY_SECONDS = 1.0
SILENCE_SECONDS = 0.1
CANCEL_SECONDS = 0.5
LONGEST_SILENCE_SECONDS = 10
LONGEST_LOCK_WAIT = "1s"
FIRST_PAUSE_SECONDS, LAST_PAUSE_SECONDS = 0.05, 0.5
NEW_SECONDS = 1.0
"""A connection that is newer than this leads to the server to which the next one would lead."""
# a host that vanishes without closing its connections is noticed within half a minute
KEEPALIVE = {"keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3, "tcp_user_timeout": 30_000}

# The planner does not know how fast these tables change: for an empty table it would choose a scan, and keep it.
_PLANNER = ("enable_seqscan", "enable_bitmapscan", "enable_hashjoin", "enable_mergejoin", "jit")


_pooled: weakref.WeakKeyDictionary[psycopg.Connection[Row], bool] = weakref.WeakKeyDictionary()


BEGIN = "begin isolation level read committed"
BEGIN_SNAPSHOT = "begin isolation level repeatable read, read only"


class Departure:
    """When a process last left a server that was silent or read-only: older connections may lead to the same one."""

    at = -math.inf

    def note(self) -> None:
        self.at = SYSTEM_CLOCK.timer()


class OwnConnection(psycopg.Connection[Row]):
    """A connection of Rowcall, dropped if the server is silent for `reply_seconds`, times the caller's patience."""

    reply_seconds = math.inf
    opened_at = 0.0
    departure = Departure()

    @property
    def is_left(self) -> bool:
        return self.opened_at <= self.departure.at

    def leave(self) -> None:
        """Close this connection, and let no older one be used."""
        self.departure.note()
        self.close()

    def wait(self, gen: PQGen[T], *args: Any, **options: Any) -> T:
        seconds = self.reply_seconds * current_patience()
        if seconds == math.inf or options.get("timeout") is not None:  # a wait for notifications may be silent
            return super().wait(gen, *args, **options)
        try:
            return super().wait(_while_heard(gen, seconds), *args, **{**options, "interval": SILENCE_SECONDS})
        except NoReply:
            self.departure.note()
            if capabilities.has_cancel_safe():  # a server that is only slow should not continue it for nothing
                with contextlib.suppress(psycopg.Error):
                    self.cancel_safe(timeout=CANCEL_SECONDS)
            self.close()
            raise


def _while_heard(gen: PQGen[T], seconds: float) -> PQGen[T]:
    """Run a generator of psycopg, until nothing has been received or sent for that long.

    Silence is counted in intervals, not by a clock: a client that is slow itself does not blame the server.
    """
    silent = 0
    try:
        awaited = next(gen)
        while True:
            ready = yield awaited
            silent = 0 if ready else silent + 1
            if silent * SILENCE_SECONDS >= seconds:
                raise NoReply(f"the server did not reply within {seconds:g} s")
            awaited = gen.send(ready)
    except StopIteration as stop:
        result: T = stop.value
        return result


def connect(
    url: str, config: Config, departure: Departure | None = None, *, planned: bool = False, hurried: bool = False
) -> OwnConnection:
    """Return a connection in autocommit mode, set up for this queue.

    `planned` sets the planner for the worker's rounds; a `hurried` connection waits only briefly for locks.
    """
    name = shown(url)
    raw = _connected(url, config)
    raw.departure = departure or raw.departure
    try:
        set_up(raw, config, planned=planned, hurried=hurried)
    except psycopg.Error as error:
        raw.close()
        raise explained(error, name) from error
    except BaseException:
        raw.close()
        raise
    return raw


def _connected(url: str, config: Config) -> OwnConnection:
    """Wait a little for a server that is starting, stopping or about to be promoted; raise any other error at once."""
    deadline = SYSTEM_CLOCK.timer() + config.busy_timeout_seconds
    pause = FIRST_PAUSE_SECONDS
    while True:
        raw = tried(url, config)
        if isinstance(raw, OwnConnection):
            return raw
        if not is_starting(raw) or SYSTEM_CLOCK.timer() > deadline:
            raise cannot_connect(raw, url)
        SYSTEM_CLOCK.sleep(jittered(SYSTEM_CLOCK, pause))
        pause = min(pause * 2, LAST_PAUSE_SECONDS)


def tried(url: str, config: Config) -> OwnConnection | psycopg.Error | ValueError:
    """Return a connection or an error. The error is not raised: a chained traceback would show its text, and in it the
    password.
    """
    check_url(url)
    try:
        return opened(url, config, options_for(url, config))
    except (psycopg.Error, ValueError) as error:
        return error


def opened(url: str, config: Config, options: dict[str, Any]) -> OwnConnection:
    raw = OwnConnection.connect(url, **options)
    raw.reply_seconds, raw.opened_at, raw.departure = reply_seconds(config), SYSTEM_CLOCK.timer(), Departure()
    return raw


def reply_seconds(config: Config) -> float:
    """Return how long a call waits for a reply."""
    return max(SHORTEST_REPLY_SECONDS, config.busy_timeout_seconds)


def options_for(url: str, config: Config) -> dict[str, Any]:
    """Return the options of every connection. Parameters in the URL win."""
    seconds = max(SHORTEST_CONNECT_SECONDS, min(math.ceil(config.busy_timeout_seconds), LONGEST_CONNECT_SECONDS))
    defaults = {"connect_timeout": seconds, "application_name": "rowcall", **KEEPALIVE}
    wanted = {key: value for key, value in defaults.items() if f"{key}=" not in url}
    return {**wanted, "autocommit": True, "cursor_factory": psycopg.RawCursor}


def set_up(raw: psycopg.Connection[Row], config: Config, *, planned: bool = False, hurried: bool = False) -> None:
    if raw.info.server_version < OLDEST_SERVER:
        raise StoreUnavailable(
            f"PostgreSQL {raw.info.server_version // 10000} is too old; 13 or newer is required",
            "Upgrade the server",
        )
    raw.adapters.register_dumper(int, Int8Dumper)  # one size: otherwise each size prepares another statement
    if is_pooled(raw):
        raw.prepare_threshold = None
        return  # settings would stay on a connection that others use next
    settings = {**_settings(config, planned=planned, hurried=hurried), **_SESSION}
    calls = ", ".join(f"set_config('{setting}', '{value}', false)" for setting, value in settings.items())
    raw.execute(f"select {calls}", prepare=False)


_SESSION = {
    "default_transaction_isolation": "read committed",
    "tcp_keepalives_idle": "10",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
}


def _settings(config: Config, *, planned: bool, hurried: bool) -> dict[str, str]:
    settings = {
        "rowcall.notifies": "after_commit",
        # the server would keep the transaction of a host that vanished, and its locks, for hours
        "idle_in_transaction_session_timeout": f"{LONGEST_SILENCE_SECONDS}s",
    }
    if hurried:
        settings["lock_timeout"] = LONGEST_LOCK_WAIT
    if planned:
        settings.update(dict.fromkeys(_PLANNER, "off"))
    if config.durability == "normal":
        settings["synchronous_commit"] = "off"
    return settings


def is_pooled(raw: psycopg.Connection[Row]) -> bool:
    """Return whether a pooler is in between: it invents a process number, as it has no server process to name."""
    known = _pooled.get(raw)
    if known is None:
        found = raw.execute("select pg_backend_pid()", prepare=False).fetchone()
        assert found is not None
        known = _pooled[raw] = found[0] != raw.info.backend_pid
    return known


def is_ours(connection: object) -> bool:
    return isinstance(connection, psycopg.Connection) and connection in _pooled


def is_alive(raw: OwnConnection) -> bool:
    """Return whether an idle connection can still be used, as far as this side knows: without a round trip."""
    if raw.is_left:
        return False
    pgconn = raw.pgconn
    if pgconn.status != pq.ConnStatus.OK or pgconn.transaction_status != pq.TransactionStatus.IDLE:
        return False
    poll = select.poll()  # not select: it refuses descriptors above 1,023
    poll.register(pgconn.socket, select.POLLIN)
    return not poll.poll(0)  # all that can arrive on an idle connection is its end


class Session:
    """Runs plans on a connection that is checked out."""

    def __init__(
        self, raw: OwnConnection, config: Config, notification: Statement[Row], *, hurried: bool = False
    ) -> None:
        self._raw = raw
        self._name = shown(config.server.url) if config.server is not None else ""
        self._reply_seconds = reply_seconds(config)
        self._cursor = psycopg.RawCursor(raw)
        self._cursor.format = pq.Format.BINARY
        self._prepare = not is_pooled(raw)
        self._begin = _begin(config, pooled=is_pooled(raw), hurried=hurried)
        self._notification = notification
        self._must_notify = False

    def execute(self, statement: Statement[object]) -> list[Row]:
        return self._execute(statement, prepare=self._prepare)

    def _execute(self, statement: Statement[object], *, prepare: bool) -> list[Row]:
        cursor = self._cursor
        cursor.execute(statement.sql, statement.parameters, prepare=prepare)
        result = cursor.pgresult
        rows = cursor.fetchall() if result is not None and result.status == pq.ExecStatus.TUPLES_OK else []
        if statement.notifies is not None and statement.notifies(rows):
            self._must_notify = True
        return rows

    def read(self, plan: Plan[T], *, snapshot: bool = False, seconds: float | None = None) -> T:
        if not snapshot and seconds is None:
            return self.run(plan)
        if seconds is None:
            return self._read_snapshot(plan, "")
        # the server ends the statement; if it does not, its silence does
        with patience(current_patience() + seconds / self._reply_seconds):
            return self._read_snapshot(plan, f"; set local statement_timeout = {max(1, round(seconds * 1000))}")

    def _read_snapshot(self, plan: Plan[T], limit: str) -> T:
        self._start(f"{self._begin.replace(BEGIN, BEGIN_SNAPSHOT)}{limit}")
        try:
            result = drive(plan, partial(self._execute, prepare=False))
            self._raw.execute("commit", prepare=False)  # after a rollback, psycopg drops all prepared statements
        except psycopg.Error as error:
            self.roll_back()
            raise self._explained(error) from error
        except BaseException:
            self.roll_back()
            raise
        return result

    def run(self, plan: Plan[T]) -> T:
        try:
            return drive(plan, self.execute)
        except psycopg.Error as error:
            raise self._explained(error) from error

    def interrupt(self) -> None:
        """From another thread: cancel the running statement."""
        with contextlib.suppress(psycopg.Error):
            self._raw.cancel_safe(timeout=CANCEL_SECONDS)

    def write(self, plan: Plan[T], *, one_statement: bool = False) -> T:
        """Run a plan in a transaction: all of it, or nothing."""
        if one_statement:  # it is a whole transaction, in a single round trip
            self._must_notify = False
            try:
                result = drive(plan, self.execute)
            except psycopg.Error as error:
                raise self._unsure(error) from error
            self._notify()
            return result
        self._start(self._begin)
        try:
            result = drive(plan, self.execute)
        except psycopg.Error as error:
            self.roll_back()
            raise self._unwritten(error) from error
        except BaseException:
            self.roll_back()
            raise
        self.commit()
        return result

    def begin(self, longest_silence_seconds: int) -> None:
        """Begin a transaction, for `run` and then `commit` or `roll_back`."""
        self._start(f"{self._begin}; set local idle_in_transaction_session_timeout = '{longest_silence_seconds}s'")

    def _start(self, begin: str) -> None:
        self._must_notify = False
        try:
            self._raw.execute(begin, prepare=False)
        except psycopg.Error as error:
            self.roll_back()
            raise self._unwritten(error) from error

    def commit(self) -> None:
        try:
            self._raw.execute("commit", prepare=False)
        except psycopg.Error as error:
            self.roll_back()
            raise self._unsure(error) from error
        self._notify()

    def _notify(self) -> None:
        """Notify idle workers. The commit is done, so that an error here does not matter."""
        if self._must_notify:
            with contextlib.suppress(psycopg.Error):
                self.execute(self._notification)

    def roll_back(self) -> None:
        with contextlib.suppress(psycopg.Error):
            if not self._raw.closed:
                self._raw.execute("rollback", prepare=False)

    def _explained(self, error: psycopg.Error) -> Exception:
        explained_error = explained(error, self._name)
        if is_stale(error):
            self._raw.close()
        elif isinstance(error, psycopg.errors.ReadOnlySqlTransaction):
            # a standby now, and the next connection leads to the new primary, if this one is not new itself
            age_seconds = SYSTEM_CLOCK.timer() - self._raw.opened_at
            self._raw.leave()
            if age_seconds > NEW_SECONDS and isinstance(explained_error, StoreUnavailable):
                return NothingWritten(explained_error.problem, explained_error.advice)
        return explained_error

    def _unwritten(self, error: psycopg.Error) -> Exception:
        explained = self._explained(error)
        if is_lost(error) and isinstance(explained, StoreUnavailable):
            # after a silence, the call has waited long enough: it is not repeated
            kind = StoreUnavailable if isinstance(error, NoReply) else NothingWritten
            return kind(explained.problem, f"Nothing was written. {explained.advice}")
        return explained

    def _unsure(self, error: psycopg.Error) -> Exception:
        """Explain an error at a moment when the server may already have committed."""
        explained = self._explained(error)
        if is_lost(error) and isinstance(explained, StoreUnavailable):
            return OutcomeUnknown(explained.problem)
        return explained


def _begin(config: Config, *, pooled: bool, hurried: bool = False) -> str:
    """Return the BEGIN. Behind a pooler, it also sets for the transaction what is otherwise set for the session."""
    settings = _settings(config, planned=True, hurried=hurried).items() if pooled else ()
    return "; ".join([BEGIN, *(f"set local {setting} = '{value}'" for setting, value in settings)])


class PostgresConnection:
    """A connection for one thread, opened at its first use, and again after it was lost."""

    def __init__(
        self,
        config: Config,
        notification: Statement[Row],
        departure: Departure,
        *,
        planned: bool = False,
        hurried: bool = False,
    ) -> None:
        assert config.server is not None
        self._server: Server = config.server
        self._config = config
        self._notification = notification
        self._departure = departure
        self._planned = planned
        self._hurried = hurried
        self.times_opened = 0
        self._raw: OwnConnection | None = None
        self._session: Session | None = None

    def read(self, plan: Plan[T]) -> T:
        return self._connected().read(plan)

    def write(self, plan: Plan[T], *, one_statement: bool = False) -> T:
        return self._connected().write(plan, one_statement=one_statement)

    def change_counter(self) -> None:
        """Return None: a server has no such counter."""
        return

    def close(self) -> None:
        if self._raw is not None:
            self._raw.close()
        self._raw = self._session = None

    def _connected(self) -> Session:
        if self._raw is None or self._session is None or not is_alive(self._raw):
            self.close()
            self._raw = connect(
                self._server.url, self._config, self._departure, planned=self._planned, hurried=self._hurried
            )
            self.times_opened += 1
            self._session = Session(self._raw, self._config, self._notification, hurried=self._hurried)
        return self._session

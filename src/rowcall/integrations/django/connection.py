"""The queue on Django's own connection: in tests, where only that one sees the test's transaction."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from asgiref.sync import sync_to_async
from django.db import connections, transaction

from rowcall.domain.config import Config
from rowcall.domain.errors import InvalidOption
from rowcall.drivers.caller.connection import CallerConnection, CallerConnections
from rowcall.drivers.caller.same_database import IdentityQuery, ServerQueueDatabase, SqliteQueueDatabase
from rowcall.drivers.database import Database, MakePlan
from rowcall.drivers.sqlite.database import memory_file
from rowcall.drivers.transaction import OpenTransaction
from rowcall.integrations.django.site import alias, is_testing
from rowcall.queue import open_database
from rowcall.store.dialect import Dialect
from rowcall.store.jobs.enqueue import Member, enqueue_members
from rowcall.store.new_job import Inserted
from rowcall.store.sqlite.dialect import SqliteDialect
from rowcall.store.statement import Plan, ReadTime

T = TypeVar("T")


def open_for_django(config: Config, now_ms: ReadTime) -> tuple[Dialect, Database]:
    """Return the database of the queue: Rowcall's own connections, or in tests Django's."""
    if not is_testing():
        return open_database(config, now_ms)
    if config.server is None:
        dialect: Dialect = SqliteDialect(config.table_prefix, now_ms, for_caller=True)
    else:
        dialect, _ = open_database(config, now_ms)
    return dialect, DjangoDatabase(alias(), config, dialect)


class DjangoDatabase(Database):
    """Runs every plan on the connection of Django that the calling thread has."""

    survey_seconds = 0.5
    block_excludes_writers = False  # calls inside a block join it
    shows_commits = False
    bulk_pause = 3.0

    def __init__(self, name: str, config: Config, dialect: Dialect) -> None:
        self._alias = name
        self.name = f"Django's connection {name!r}"
        super().__init__(config, partial(enqueue_members, dialect), _Home(name))
        self.caller_connections = _Connections(name)
        self.shared = _Unshared(self._write_members)  # type: ignore[assignment]
        self.path = memory_file()

    @property
    def side_folder(self) -> str:
        return f"{self.path}-rowcall"

    def connect(self) -> Any:
        raise InvalidOption("worker", "does not see the transaction of a Django test; call rowcall.django.run_jobs()")

    def read(self, plan: Plan[T], *, snapshot: bool = False, seconds: float | None = None) -> T:
        return self._run(plan)

    def write(self, make_plan: MakePlan[T], *, once: bool = False) -> T:
        with transaction.atomic(using=self._alias):
            return self._run(make_plan())

    def _write_members(self, members: list[Member]) -> list[Inserted]:
        return self.write(partial(self._enqueue, members))

    async def aread(self, plan: Plan[T], *, snapshot: bool = False, seconds: float | None = None) -> T:
        return await in_thread(partial(self.read, plan))

    async def awrite(self, make_plan: MakePlan[T]) -> T:
        return await in_thread(partial(self.write, make_plan))

    def begin(self) -> OpenTransaction:
        return OpenTransaction(_AtomicBlock(self._alias, self._run), lambda: None)

    def vacuum(self) -> int:
        return 0

    def close(self) -> None:
        """Leave the connection to Django."""

    def _run(self, plan: Plan[T]) -> T:
        return self.caller_connections.wrap(connections[self._alias], None).run(plan)


async def in_thread(function: Callable[[], T]) -> T:
    """Call a function in Django's thread for sync code."""
    result: T = await sync_to_async(function, thread_sensitive=True)()
    return result


class _Unshared:
    """Writes each job in its own transaction: another thread has another connection."""

    def __init__(self, write: Callable[[list[Member]], list[Inserted]]) -> None:
        self._write = write

    def submit(self, member: Member) -> Inserted:
        return self._write([member])[0]

    async def asubmit(self, member: Member) -> Inserted:
        return await in_thread(partial(self.submit, member))


class _AtomicBlock:
    """A block of `jobs.transaction()`."""

    def __init__(self, name: str, run: Callable[[Plan[Any]], Any]) -> None:
        self._alias = name
        self.run = run
        self._block = transaction.atomic(using=name)
        self._block.__enter__()

    def commit(self) -> None:
        self._block.__exit__(None, None, None)

    def roll_back(self) -> None:
        transaction.set_rollback(True, using=self._alias)
        self.commit()

    def interrupt(self) -> None:
        """Do nothing: the thread that would do so has no access to the connection."""


class _Connections(CallerConnections):
    """Accepts `connection="default"`, as outside of tests, for that one alias."""

    def __init__(self, name: str) -> None:
        super().__init__(_Home(name))
        self._alias = name

    def wrap(self, connection: object, query: IdentityQuery | None) -> CallerConnection:
        wrapped = super().wrap(connection, query)
        given = connection if isinstance(connection, str) else getattr(connection, "alias", None)
        if given != self._alias:
            found = repr(connection) if given is None else f"Django's connection {given!r}"
            raise InvalidOption("connection", f"must be Django's connection {self._alias!r} in tests, got {found}")
        return wrapped


class _Home:
    """Any connection that `_Connections` accepts leads here."""

    is_known = True

    def __init__(self, name: str) -> None:
        self.database = connections[name].vendor
        self.name = f"Django's connection {name!r}"
        self.explained = _ERRORS[self.database](self.name)

    def learn(self, query: IdentityQuery | None) -> None:
        pass

    def check(self, query: IdentityQuery | None) -> Plan[str | None]:
        yield from ()
        return None

    def note_written(self) -> None:
        pass


def _sqlite_errors(name: str) -> Callable[[Exception], Exception]:
    return SqliteQueueDatabase(name).explained


def _postgres_errors(name: str) -> Callable[[Exception], Exception]:
    from rowcall.drivers.postgres.errors import of_any_driver

    return _server_errors(name, of_any_driver)


def _mysql_errors(name: str) -> Callable[[Exception], Exception]:
    from rowcall.drivers.mysql.errors import of_any_driver

    return _server_errors(name, of_any_driver)


def _server_errors(name: str, of_any_driver: Callable[[Exception, str], Exception]) -> Callable[[Exception], Exception]:
    def ask(query: IdentityQuery) -> Any:
        raise AssertionError("no connection is checked in tests")

    return ServerQueueDatabase("", name, ask, lambda error: of_any_driver(error, name)).explained


_ERRORS = {"sqlite": _sqlite_errors, "postgresql": _postgres_errors, "mysql": _mysql_errors}

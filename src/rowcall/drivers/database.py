"""What a database of any kind is to the rest: a place where plans are run."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from rowcall.drivers.caller.connection import Loan, Whereabouts
from rowcall.store.statement import Plan

T = TypeVar("T")
M = TypeVar("M", contravariant=True)
E = TypeVar("E", covariant=True)

MakePlan = Callable[[], Plan[T]]
"""A plan runs once. Whoever may have to begin anew, because of a conflict, asks for another."""


class Connection(Protocol):
    """A connection for one thread's own use. After an error it connects anew by itself."""

    def read(self, plan: Plan[T]) -> T: ...
    def write(self, plan: Plan[T]) -> T:
        """Run a plan in a transaction: all of it, or nothing."""

    def write_one_statement(self, plan: Plan[T]) -> T:
        """`write`, in fewer steps, for a plan of one statement that may be written twice without harm."""

    def change_counter(self) -> int | None:
        """A number that changes when others commit, where there is one."""

    def close(self) -> None: ...


class Transaction(Protocol):
    """A transaction that stays open between plans, on a connection of its own. One thread at a time uses it.

    After an error of the database it can only be taken back, to a mark or as a whole.
    """

    def run(self, plan: Plan[T]) -> T: ...
    def interrupt(self, plan: Plan[Any]) -> None:
        """End a plan that another thread runs here: on a server it may wait for any lock. Then it has failed."""

    def mark(self, name: str) -> None: ...
    def forget_mark(self, name: str) -> None: ...
    def back_to(self, mark: str) -> None:
        """Undo all that came after the mark, and forget it."""

    def commit(self) -> None:
        """The end of it, whether that succeeds or not."""

    def roll_back(self) -> None:
        """The end of it. It never raises: what is not committed is undone sooner or later in any case."""


class Database(Protocol[M, E]):
    """Opens when it is first used. Members of a shared commit are written together."""

    one_writer: bool
    """Whether everybody else has to wait while somebody writes."""

    setup_lock: threading.Lock
    survey_seconds: float
    """How often a worker may look after the others without being a burden."""

    @property
    def name(self) -> str:
        """As people are told of it: a path, or a URL without its password."""

    @property
    def path(self) -> str:
        """The file, where it is one."""

    @property
    def side_folder(self) -> str:
        """A folder of this host for locks that only the kernel can keep."""

    def connect(self) -> Connection: ...
    def was_replaced(self) -> bool:
        """Whether another database is there now than the one that was opened: then all is opened anew."""

    def read(self, plan: Plan[T]) -> T: ...
    def read_together(self, make_plan: MakePlan[T]) -> T:
        """`read`, for a plan whose statements must all see the same moment."""

    def read_briefly(self, make_plan: MakePlan[T]) -> T:
        """`read`, for a plan that limits how long it waits."""

    def write(self, make_plan: MakePlan[T], *, once: bool = False) -> T:
        """Run a plan in a transaction. Conflicts are tried again, unless it is to run `once`."""

    def begin(self) -> Transaction: ...
    async def aread(self, plan: Plan[T]) -> T: ...
    async def aread_together(self, make_plan: MakePlan[T]) -> T: ...
    async def awrite(self, make_plan: MakePlan[T]) -> T: ...
    def write_shared(self, member: M) -> E: ...
    async def awrite_shared(self, member: M) -> E: ...
    def lend(self, connection: object, whereabouts: Whereabouts | None) -> Loan:
        """A connection of the caller's, to run a plan inside the caller's own transaction.

        `whereabouts` is asked of it, and of our own, to tell whether it leads here.
        """

    def vacuum(self) -> int:
        """Give back the space of what was deleted; gives how many bytes that were."""

    def give_back(self, stopped: Callable[[], bool]) -> None:
        """`vacuum`, as far as the database does not do it by itself and until it is told to stop."""

    def tidy(self) -> None:
        """What is to be done now and then by somebody who has the time."""

    def close(self) -> None:
        """Close every connection. The next use opens anew."""

"""Makes sure that the jobs which this worker holds are still its own."""

from __future__ import annotations

from dataclasses import dataclass

from rowcall.context import logger
from rowcall.domain.errors import DataRefused, MovedTo, RowcallError
from rowcall.domain.outcome import Released
from rowcall.drivers.database import Connection
from rowcall.queue import Queue
from rowcall.store.queries.workers import HEARTBEAT_OF_WORKER
from rowcall.worker.lanes.dispatcher import Dispatcher
from rowcall.worker.pace import DECIDED_SECONDS, NEVER
from rowcall.worker.registrar import Registrar
from rowcall.worker.settling import Settler


@dataclass(eq=False)
class Ownership:
    """Other workers take over the jobs of a worker that they declared lost; a lost reply leaves a commit in doubt."""

    queue: Queue
    dispatcher: Dispatcher
    connection: Connection
    registrar: Registrar
    settler: Settler
    _lost: bool = False
    _in_doubt: bool = False
    _is_logged: bool = False
    _check_again_at: float = NEVER
    _times_opened: int = 1

    def note_lost(self) -> None:
        """This worker was declared lost. Called by any thread."""
        self._lost = True

    def note_failed(self, error: RowcallError) -> None:
        """The reply to a commit may be lost, unless the database refused the data."""
        self._in_doubt = not isinstance(error, DataRefused)

    @property
    def is_uncertain(self) -> bool:
        """Whether `ensure` must find out what belongs to this worker, as well as it can."""
        return self._lost or self._in_doubt or self.is_reopened

    @property
    def is_reopened(self) -> bool:
        """Whether the connection was replaced, perhaps without an error: a standby may lack what was settled last."""
        return self.connection.times_opened > self._times_opened

    def ensure(self) -> bool:
        """Call before each step. Return whether there may be jobs to claim because of what was found."""
        if self.registrar.lease.may_be_over:
            self._renew_lease()
        registered = self._lost
        if self._lost:
            self._register_again()
        if self._in_doubt or self.queue.clock.timer() > self._check_again_at:
            self._resolve_doubt()
            return True
        if self.is_reopened:
            self._note_reopened()
            self.settler.release_unknown(self.registrar.holders)
            return True
        return registered

    def _note_reopened(self) -> None:
        if self.is_reopened:
            self._times_opened = self.connection.times_opened
            self.registrar.renew_holder()

    def _renew_lease(self) -> None:
        """Check that the worker is still registered; until then no handler starts."""
        sent_at = self.queue.clock.monotonic()
        ask = self.queue.dialect.ask(HEARTBEAT_OF_WORKER, self.registrar.name)
        if self.connection.write(ask):
            self.registrar.lease.renew(sent_at)
        else:
            self._lost = True

    def _register_again(self) -> None:
        """Stop the handlers, as their jobs belong to other workers, and register under another name."""
        former = self.registrar.name
        self._drop_unstarted()
        self.dispatcher.stop_all()
        try:
            self.queue.backend.check_schema_again()  # a migration stops the workers that do not fit the new tables
            self.registrar.register()
        except MovedTo:
            raise  # the queue has lost no worker, but left the database
        except BaseException:
            self._log_lost(former)
            raise
        self._log_lost(former)
        self.dispatcher.identify(self.registrar.current)
        self._lost = self._is_logged = self._in_doubt = False

    def _log_lost(self, name: str) -> None:
        if not self._is_logged:
            self._is_logged = True
            logger.error(
                "worker %s was declared lost; its jobs belong to others now, and its handlers are stopped", name
            )

    def _resolve_doubt(self) -> None:
        """Find out what was committed: now, and once more when the server has surely decided."""
        self._note_reopened()
        self.release_unknown()
        self._check_again_at = self.queue.clock.timer() + DECIDED_SECONDS if self._in_doubt else NEVER
        self._in_doubt = False

    def ask_at_the_end(self) -> bool:
        """Before the worker ends, ask once more what a commit in doubt has claimed. Return whether that was asked."""
        if self._check_again_at == NEVER:
            return False
        self._check_again_at = NEVER
        try:
            self.release_unknown()
        except RowcallError as error:
            logger.warning("could not ask for jobs of a commit in doubt, other workers will recover them: %s", error)
            return False
        return True

    def release_unknown(self) -> None:
        """Release the jobs that were claimed in our name, and that we do not hold: the claim, or the end, was lost."""
        self.settler.make_sure(self.registrar.holders)

    def drop_all(self) -> None:
        """The database file was replaced: the ids of our jobs may be those of other jobs now."""
        self._drop_unstarted()
        self.dispatcher.stop_all()
        self.dispatcher.abandon_all(Released())
        self.settler.drop_all()
        self._lost = self._is_logged = True

    def _drop_unstarted(self) -> None:
        for attempt in self.dispatcher.pop_unstarted():
            attempt.settled = True

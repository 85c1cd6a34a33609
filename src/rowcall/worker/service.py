"""Services: every background thread starts and stops the same way."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol

from rowcall.base.clock import Clock
from rowcall.context import logger
from rowcall.domain.errors import RowcallError
from rowcall.drivers.patience import UPKEEP, patience
from rowcall.worker.outage import Outage
from rowcall.worker.pace import PATIENCE_SECONDS

Stopping = Callable[[], bool]


def never() -> bool:
    return False


class Service(Protocol):
    """A second call of any of these does nothing."""

    def start(self) -> None: ...

    def stop(self) -> None:
        """Ask it to end."""

    def wait(self) -> None:
        """Wait until it has ended and closed its connections. Do not wait long for one that is blocked by a server
        out of reach: it ends later.
        """


class Background:
    """A service: a thread that runs `work` until it is stopped. `stop` also sets `wake`, if `work` waits for that."""

    def __init__(
        self,
        name: str,
        work: Callable[[Background], None],
        clock: Clock,
        *,
        outage: Outage | None = None,
        wake: threading.Event | None = None,
    ) -> None:
        self.name = name
        self._work = work
        self._clock = clock
        self._outage = outage
        self._wake = wake
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        if self._thread is None and not self.stopping():
            work, name = patience(UPKEEP)(self._work), f"rowcall-{self.name.replace(' ', '-')}"
            self._thread = threading.Thread(target=work, args=(self,), name=name, daemon=True)
            self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        if self._wake is not None:
            self._wake.set()

    def wait(self) -> None:
        if self._thread is not None:
            self._thread.join(PATIENCE_SECONDS)

    # for the thread itself

    def stopping(self) -> bool:
        return self._stopped.is_set()

    def pause(self, seconds: float) -> bool:
        """Wait; return whether to continue."""
        return not self._clock.wait(self._stopped, seconds)

    def attempt(self, step: Callable[[], object]) -> bool:
        """Take one step, and log its errors. Return whether it succeeded."""
        try:
            step()
        except RowcallError as error:
            if self._outage is not None:
                self._outage.noticed(self.name, error)
            else:  # the loop reports that the database is out of reach
                logger.debug("%s failed: %s", self.name, error)
            return False
        except Exception:
            logger.exception("%s failed with an unexpected error", self.name)
            return False
        if self._outage is not None:
            self._outage.over(self.name)
        return True

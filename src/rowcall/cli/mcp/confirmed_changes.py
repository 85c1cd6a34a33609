"""Changes in two calls: the first shows what it would do and returns a token, the second takes the token."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Mapping
from typing import NamedTuple

from rowcall.base.clock import Clock
from rowcall.domain.errors import InvalidOption

TOKEN_SECONDS = 300.0
MOST_OPEN = 100
_UNKNOWN = (
    "is unknown, used or expired: a token is for one change, within 5 min; show the change again to get a new one"
)

JsonObject = dict[str, object]


class ShownChange(NamedTuple):
    """What a person may agree to. `state` is what it is about: if that is different later, nothing is done."""

    would: str
    number: int
    shown: Mapping[str, object]
    state: Callable[[], object]
    make: Callable[[], JsonObject]


class _Open(NamedTuple):
    change: ShownChange
    state: object
    until: float


class ConfirmedChanges:
    """The changes that were shown, and not made yet. They are forgotten with the process."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._open: dict[str, _Open] = {}

    def show(self, change: ShownChange) -> JsonObject:
        """Return what the change would do, and a token for it, unless there is nothing to do."""
        answer: JsonObject = {"would": change.would, "count": change.number, **change.shown}
        if not change.number:
            return {**answer, "token": None}
        token, now = secrets.token_urlsafe(16), self._clock.monotonic()
        entry = _Open(change, change.state(), now + TOKEN_SECONDS)
        with self._lock:
            kept = [(name, one) for name, one in self._open.items() if one.until > now]
            self._open = dict([*kept[-(MOST_OPEN - 1) :], (token, entry)])
        return {**answer, "token": token, "expires_in_seconds": TOKEN_SECONDS}

    def make(self, token: str) -> JsonObject:
        """Make the change that was shown with the token, once."""
        with self._lock:
            entry = self._open.pop(token, None)
        if entry is None or entry.until <= self._clock.monotonic():
            raise InvalidOption("token", _UNKNOWN)
        if entry.change.state() != entry.state:
            raise InvalidOption("token", f"is for a state that has changed; nothing was done: {entry.change.would}")
        return entry.change.make()

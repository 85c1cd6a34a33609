"""Retry policies: how long to wait before the next attempt. Pure: chance comes in as a number from 0 to 1."""

from collections.abc import Callable
from datetime import timedelta
from typing import Literal

import msgspec

from rowcall.domain.errors import InvalidOption, seconds_of
from rowcall.domain.value import Value

RetryCallable = Callable[[int, BaseException], float | timedelta | None]
"""Returns the pause before the next attempt, or None to give up."""


class Backoff(Value, frozen=True, omit_defaults=True):
    """A retry policy that can be stored in the job's row.

    >>> [Backoff.linear(30).delay_seconds(attempt, chance=0.5) for attempt in (1, 2, 3, 4)]
    [30.0, 60.0, 90.0, 120.0]
    >>> Backoff.exponential(2, cap=60, jitter=False).delay_seconds(10, chance=0.5)
    60.0
    """

    kind: Literal["constant", "linear", "exponential"]
    base_seconds: float
    cap_seconds: float | None = None
    jitter: bool = False
    give_up_on: tuple[str, ...] = ()
    only_on: tuple[str, ...] = ()

    @classmethod
    def constant(cls, seconds: float | timedelta, *, give_up_on: object = (), only_on: object = ()) -> "Backoff":
        """Wait the same time before each attempt."""
        return cls("constant", seconds_of("seconds", seconds), None, False, *_names(give_up_on, only_on))

    @classmethod
    def linear(
        cls,
        seconds: float | timedelta,
        *,
        cap: float | timedelta | None = None,
        give_up_on: object = (),
        only_on: object = (),
    ) -> "Backoff":
        """Wait `seconds` after the first attempt, twice that after the second, and so on."""
        return cls("linear", seconds_of("seconds", seconds), _cap(cap), False, *_names(give_up_on, only_on))

    @classmethod
    def exponential(
        cls,
        seconds: float | timedelta,
        *,
        cap: float | timedelta | None = None,
        jitter: bool = True,
        give_up_on: object = (),
        only_on: object = (),
    ) -> "Backoff":
        """Wait `seconds`, doubled each time, up to `cap`. With jitter, wait a random time from 0 to that."""
        return cls("exponential", seconds_of("seconds", seconds), _cap(cap), jitter, *_names(give_up_on, only_on))

    def delay_seconds(self, attempt: int, *, chance: float) -> float:
        match self.kind:
            case "constant":
                delay = self.base_seconds
            case "linear":
                delay = self.base_seconds * attempt
            case "exponential":
                delay = self.base_seconds * 2.0 ** min(attempt - 1, 60)
        if self.cap_seconds is not None:
            delay = min(delay, self.cap_seconds)
        delay = min(max(delay, 0.0), LONGEST_DELAY_SECONDS)  # plain SQL may have written a negative number
        return delay * chance if self.jitter else delay

    def gives_up_on(self, error: BaseException) -> bool:
        """Return whether an error is in `give_up_on`, or not in `only_on`, where that names any."""
        if not (self.give_up_on or self.only_on):
            return False
        names = set(class_names(type(error)))
        return not names.isdisjoint(self.give_up_on) or (bool(self.only_on) and names.isdisjoint(self.only_on))


LONGEST_DELAY_SECONDS = 366 * 86400.0
RetryPolicy = Backoff | RetryCallable


def class_names(kind: type[BaseException]) -> list[str]:
    """Return the names that a policy can use for an exception: of its class and bases, with and without module."""
    names = []
    for base in kind.__mro__[:-1]:
        names += [base.__name__, f"{base.__module__}.{base.__qualname__}"]
    return names


def _names(give_up_on: object, only_on: object) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return _exception_names("give_up_on", give_up_on), _exception_names("only_on", only_on)


def _exception_names(option: str, given: object) -> tuple[str, ...]:
    kinds = given if isinstance(given, tuple | list | set | frozenset) else (given,)
    names = []
    for kind in kinds:
        if isinstance(kind, str) and kind:
            names.append(kind)
        elif isinstance(kind, type) and issubclass(kind, BaseException):
            names.append(f"{kind.__module__}.{kind.__qualname__}")
        else:
            raise InvalidOption(option, f"must be exception classes or their names, got {kind!r}")
    return tuple(names)


def _cap(cap: float | timedelta | None) -> float | None:
    return None if cap is None else seconds_of("cap", cap)


DEFAULT_BACKOFF = Backoff.linear(30)

_decoder = msgspec.json.Decoder(Backoff)


def backoff_to_text(backoff: Backoff) -> str:
    return msgspec.json.encode(backoff).decode()


def backoff_from_text(text: str) -> Backoff:
    """Return the policy in a row, or raise `ValueError` if plain SQL wrote something else."""
    try:
        return _decoder.decode(text)
    except msgspec.MsgspecError as error:
        raise ValueError(f"not a retry policy: {error}") from error

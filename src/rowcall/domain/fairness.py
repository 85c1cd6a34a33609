"""Fairness and order: whose job it is, by the value of an argument. Pure: payloads come in, columns of a row go out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

import msgspec

from rowcall.domain.checks import name_problem, whole
from rowcall.domain.errors import InvalidArguments, InvalidOption
from rowcall.domain.limits import key_of, renamed

HIGHEST_WEIGHT = 1000
LONGEST_KEY = 2000  # bytes: an index of PostgreSQL takes 2704

Weight = Callable[..., int]
"""How many jobs of a value start for each job of another value."""


class Shared(NamedTuple):
    """The columns of a job that say with whom it shares, and after whom it comes."""

    fair: str | None = None
    weight: int | None = None
    ordered: str | None = None
    order_blocks: int | None = None


class FairBy(msgspec.Struct, frozen=True):
    """Jobs take turns by an argument: among the jobs of a task, or of a queue if there is no `task`."""

    by: str
    task: str | None = None
    weight: Weight | None = None
    missing: object = None

    def of(self, task: str, payload: Mapping[str, object]) -> tuple[str, int | None]:
        """Return the key and the weight of a job."""
        value = value_of("fair_by", self.by, task, payload, self.missing)
        return key_of(self.task, value), self._weight_of(task, value)

    def _weight_of(self, task: str, value: object) -> int | None:
        if self.weight is None:
            return None
        weight = self.weight(value)
        try:
            return whole(1, HIGHEST_WEIGHT)("weight", weight)
        except InvalidOption as error:
            raise InvalidOption("weight", f"{error.problem} for {self.by}={value!r} of {task}") from None


class OrderedBy(msgspec.Struct, frozen=True):
    """Jobs of a task run one at a time for each value of an argument, in the order of their ids."""

    by: str
    task: str
    blocks: bool = False
    """Whether a job that failed for good holds the later ones back."""
    missing: object = None
    aliases: tuple[str, ...] = ()

    def of(self, payload: Mapping[str, object]) -> str:
        return key_of(self.task, value_of("ordered_by", self.by, self.task, payload, self.missing))

    def others(self, ordered: str) -> list[str]:
        """Return the values that jobs with this value have under the other names of the task."""
        return renamed(ordered, (self.task, *self.aliases)) if self.aliases else []


class Sharing(msgspec.Struct, frozen=True):
    """How the jobs of a task share its workers."""

    fair: FairBy | None = None
    order: OrderedBy | None = None

    def for_job(self, task: str, payload: Mapping[str, object]) -> Shared:
        fair, weight = (None, None) if self.fair is None else self.fair.of(task, payload)
        if self.order is None:
            return Shared(fair, weight)
        return Shared(fair, weight, self.order.of(payload), int(self.order.blocks))


def value_of(option: str, by: str, task: str, payload: Mapping[str, object], missing: object) -> object:
    """Return the value of an argument; `InvalidArguments` if jobs cannot be told apart by it.

    >>> value_of("fair_by", "customer_id", "send", {"customer_id": 7}, None)
    7
    """
    value = payload.get(by, missing)
    if isinstance(value, dict | list):
        raise InvalidArguments(
            task, f"{option}={by!r} needs a value that can be hashed, such as a number or a text, got {value!r}"
        )
    return value


def checked_argument(option: str, value: object) -> str:
    if name_problem(value) or not str(value).isidentifier():
        raise InvalidOption(option, f"must be the name of an argument, got {value!r}")
    return str(value)


def checked_weight(option: str, value: object) -> Weight:
    if isinstance(value, Mapping):
        for number in value.values():
            whole(1, HIGHEST_WEIGHT)(option, number)
        return partial(_weight_in, dict(value))
    if not callable(value):
        raise InvalidOption(
            option, f'must be weights by value, such as {{"acme": 3}}, or a function of a value, got {value!r}'
        )
    return value


def _weight_in(weights: Mapping[object, int], value: object) -> int:
    return weights.get(value, 1)

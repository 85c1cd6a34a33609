"""Retention: how long finished jobs are kept."""

from collections.abc import Mapping
from datetime import timedelta

import msgspec

from rowcall.domain.errors import InvalidOption, seconds_of
from rowcall.domain.job import Status
from rowcall.domain.value import OptionsMeta, Value

DAY_SECONDS = 86_400.0
Keep = float | timedelta | None


class Retention(Value, frozen=True, metaclass=OptionsMeta):
    """How long finished jobs are kept, in seconds or as a `timedelta`; None keeps them forever.

    >>> Retention(succeeded=timedelta(days=7), failed=None).keep_seconds("succeeded")
    604800.0
    """

    succeeded: Keep = 30 * DAY_SECONDS
    failed: Keep = 90 * DAY_SECONDS
    cancelled: Keep = 30 * DAY_SECONDS
    queues: Mapping[str, "Retention"] = {}
    """Other rules for some queues."""

    def __post_init__(self) -> None:
        for status in ("succeeded", "failed", "cancelled"):
            keep: float | timedelta | None = getattr(self, status)
            if keep is not None:
                msgspec.structs.force_setattr(self, status, seconds_of(status, keep))
        if not isinstance(self.queues, Mapping):
            raise InvalidOption("queues", f"must be a dict of queue names to Retention values, got {self.queues!r}")
        for queue, rule in self.queues.items():
            if not isinstance(queue, str) or not isinstance(rule, Retention) or rule.queues:
                raise InvalidOption(
                    "queues", f"must be a dict of names to Retentions without queues, got {rule!r} for {queue!r}"
                )

    def keep_seconds(self, status: str) -> float | None:
        keep: float | None = getattr(self, status)
        return keep


class Rules(msgspec.Struct, frozen=True):
    """The rules of a fleet. A job is kept by the rule of its task, else of its queue, else by the common rule.

    `elsewhere` is the common rule for tasks that are not `declared` here, if it differs.
    """

    common: Retention
    tasks: Mapping[str, Retention] = {}
    elsewhere: Retention | None = None
    declared: frozenset[str] = frozenset()

    def keep_seconds(self, status: Status, queue: str, task: str) -> float | None:
        common = self.common if self.elsewhere is None or task in self.declared else self.elsewhere
        rule = self.tasks.get(task) or common.queues.get(queue) or common
        return rule.keep_seconds(status)


def retention_to_text(rule: Retention) -> str:
    return msgspec.json.encode(rule).decode()


def retention_from_text(text: str) -> Retention:
    """Return the rule that `retention_to_text` wrote, or raise `ValueError`."""
    rule = msgspec.json.decode(text, type=dict[str, object])
    if not {"succeeded", "failed", "cancelled"} <= rule.keys():
        raise ValueError(f"not a retention rule: {text}")
    return msgspec.convert(rule, Retention)

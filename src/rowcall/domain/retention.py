"""How long finished jobs are kept. Pure: the time comes in."""

from collections.abc import Mapping
from datetime import timedelta

import msgspec

from rowcall.domain.errors import InvalidOption, seconds_of
from rowcall.domain.job import Status
from rowcall.domain.value import Value

DAY_SECONDS = 86_400.0
Keep = float | timedelta | None


class Retention(Value, frozen=True):
    """How long jobs are kept after they have finished, in seconds or as a `timedelta`; None keeps them for ever.

    >>> Retention(succeeded=timedelta(days=7), failed=None).keep_seconds("succeeded")
    604800.0
    """

    succeeded: Keep = 30 * DAY_SECONDS
    failed: Keep = 90 * DAY_SECONDS
    cancelled: Keep = 30 * DAY_SECONDS
    queues: Mapping[str, "Retention"] = {}
    """What holds for some queues instead."""

    def __post_init__(self) -> None:
        for status in ("succeeded", "failed", "cancelled"):
            keep: float | timedelta | None = getattr(self, status)
            if keep is not None:
                msgspec.structs.force_setattr(self, status, seconds_of(status, keep))
        if not isinstance(self.queues, Mapping):
            raise InvalidOption("queues", f"wants a dict of queue names to Retention values, not {self.queues!r}")
        for queue, rule in self.queues.items():
            if not isinstance(queue, str) or not isinstance(rule, Retention) or rule.queues:
                raise InvalidOption("queues", f"wants a Retention without queues of its own for {queue!r}")

    def keep_seconds(self, status: str) -> float | None:
        keep: float | None = getattr(self, status)
        return keep


class Rules(msgspec.Struct, frozen=True):
    """What holds for each finished job: its task's rule, else its queue's, else the common one.

    `elsewhere` is the common one for tasks that are not `declared` here, if it is another.
    """

    common: Retention
    tasks: Mapping[str, Retention] = {}
    elsewhere: Retention | None = None
    declared: frozenset[str] = frozenset()

    def keep_seconds(self, status: Status, queue: str, kind: str) -> float | None:
        common = self.common if self.elsewhere is None or kind in self.declared else self.elsewhere
        rule = self.tasks.get(kind) or common.queues.get(queue) or common
        return rule.keep_seconds(status)


class _Written(msgspec.Struct):
    succeeded: float | None
    failed: float | None
    cancelled: float | None
    queues: dict[str, "_Written"] = {}

    def rule(self) -> Retention:
        queues = {queue: written.rule() for queue, written in self.queues.items()}
        return Retention(self.succeeded, self.failed, self.cancelled, queues)


def retention_to_text(rule: Retention) -> str:
    return msgspec.json.encode(_written(rule)).decode()


def retention_from_text(text: str) -> Retention:
    """The rule that was written by `retention_to_text`; `ValueError` for anything else."""
    return msgspec.json.decode(text, type=_Written).rule()


def _written(rule: Retention) -> _Written:
    queues = {queue: _written(of_queue) for queue, of_queue in rule.queues.items()}
    return _Written(rule.keep_seconds("succeeded"), rule.keep_seconds("failed"), rule.keep_seconds("cancelled"), queues)

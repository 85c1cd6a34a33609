"""How long finished jobs are kept. Pure: the time comes in."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

import msgspec

from rowcall.errors import InvalidOption, seconds_of
from rowcall.job import Status

DAY_SECONDS = 86_400.0
Keep = float | timedelta | None


class Retention(msgspec.Struct, frozen=True, omit_defaults=True):
    """How long jobs are kept after they have finished, in seconds or as a `timedelta`; None keeps them for ever.

    >>> Retention(succeeded=timedelta(days=7), failed=None).keep_seconds("succeeded")
    604800.0
    """

    succeeded: Keep = 30 * DAY_SECONDS
    failed: Keep = 90 * DAY_SECONDS
    cancelled: Keep = 30 * DAY_SECONDS
    queues: Mapping[str, Retention] = {}
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
    """What holds for each finished job: its task's rule, else its queue's, else the common one."""

    common: Retention
    tasks: Mapping[str, Retention] = {}

    def keep_seconds(self, status: Status, queue: str, kind: str) -> float | None:
        rule = self.tasks.get(kind) or self.common.queues.get(queue) or self.common
        return rule.keep_seconds(status)


def retention_to_text(rule: Retention) -> str:
    return msgspec.json.encode([rule.succeeded, rule.failed, rule.cancelled]).decode()


def retention_from_text(text: str) -> Retention:
    """The rule that was written by `retention_to_text`; `ValueError` for anything else."""
    succeeded, failed, cancelled = msgspec.json.decode(text, type=tuple[float | None, float | None, float | None])
    return Retention(succeeded, failed, cancelled)

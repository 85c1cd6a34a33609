"""Receive jobs that a worker delivers to an app: `rowcall.push.verify` for any web framework."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta

from rowcall.base.clock import SYSTEM_CLOCK
from rowcall.domain.errors import seconds_of
from rowcall.domain.push import PushedJob, pushed_from
from rowcall.domain.push_signatures import DEFAULT_TOLERANCE_SECONDS, checked_secrets, verify_message

__all__ = ["verify"]


def verify(
    body: bytes,
    headers: Mapping[str, str],
    secrets: str | Sequence[str],
    *,
    tolerance: float | timedelta = DEFAULT_TOLERANCE_SECONDS,
) -> PushedJob:
    """Return the job in a request that a worker has signed with one of the secrets, or raise `PushRefused`.

        pushed = rowcall.push.verify(await request.body(), request.headers, SECRET)
        send_email(**pushed.arguments)

    `tolerance` is by how many seconds the clocks may differ; an older request is refused. All attempts of a job have
    the same `webhook-id` header. An app that must not do its work twice keeps the ids of what it has done.
    """
    verify_message(checked_secrets(secrets), headers, body, SYSTEM_CLOCK.wall(), seconds_of("tolerance", tolerance, 1))
    return pushed_from(body)

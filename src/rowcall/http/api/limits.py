"""Limits: what they allow and use, and changes of their numbers."""

from __future__ import annotations

from rowcall.domain.errors import InvalidOption
from rowcall.domain.limits import LimitChange, LimitInfo
from rowcall.domain.value import Value
from rowcall.http.endpoint import Call, EndpointInput
from rowcall.operations import limits as levers


class Limits(Value, frozen=True, kw_only=True):
    """All limits by name, and the last changes of their numbers, newest first."""

    limits: list[LimitInfo]
    changes: list[LimitChange]


class LimitAnswer(Value, frozen=True, kw_only=True):
    """The limit after the change."""

    limit: LimitInfo


class LimitReset(Value, frozen=True, kw_only=True):
    """Whether the numbers of the limit were set before, or it was held."""

    name: str
    was_set: bool


class NumbersInput(EndpointInput, frozen=True, kw_only=True):
    """New numbers; what is not given stays. `per` is in seconds."""

    concurrency: int | None = None
    rate: int | None = None
    per: float | None = None


class LimitInput(NumbersInput, frozen=True, kw_only=True):
    """New numbers; or `reset`, to let the declared ones count again."""

    reset: bool = False


async def list_limits(call: Call) -> Limits:
    """List the limits: what is allowed and used, how many jobs wait, and who changed them."""
    found = await call.read(levers.limits(call.queue))
    return Limits(
        limits=call.all_scrubbed(found), changes=call.all_scrubbed(await call.read(levers.limit_changes(call.queue)))
    )


async def change_limit(call: Call, name: str, body: LimitInput) -> LimitAnswer:
    """Replace the numbers of a limit for all workers, or reset them to the declared ones."""
    if not body.reset:
        return await set_limit(call, name, body)
    if (body.concurrency, body.rate, body.per) != (None, None, None):
        raise InvalidOption("reset", "cannot be combined with new numbers")
    await reset_limit(call, name)
    return LimitAnswer(limit=call.scrubbed(await call.read(levers.limit(call.queue, name))))


async def set_limit(call: Call, name: str, body: NumbersInput) -> LimitAnswer:
    """Replace the numbers of a limit for all workers."""
    numbers = {"concurrency": body.concurrency, "rate": body.rate}
    limit = await call.change(levers.set_limit(call.queue, name, per=body.per, actor=call.actor, **numbers))
    return LimitAnswer(limit=call.scrubbed(limit))


async def reset_limit(call: Call, name: str) -> LimitReset:
    """Let the declared numbers of a limit count again."""
    return LimitReset(name=name, was_set=await call.change(levers.reset_limit(call.queue, name, actor=call.actor)))

"""Signals to jobs whose handlers wait for them."""

from __future__ import annotations

from rowcall.domain.job import Job
from rowcall.domain.step import OpenWaits
from rowcall.domain.value import Value
from rowcall.http.endpoint import Call, EndpointInput
from rowcall.operations import inspect, signals


class SignalInput(EndpointInput, frozen=True, kw_only=True):
    """The value, and perhaps the position of the wait that it is for. With a key, it is received once."""

    value: object = None
    position: int | None = None
    key: str | None = None


class Signalled(Value, frozen=True, kw_only=True):
    """The job that the signal was sent to, and the name of the signal."""

    job: Job
    name: str


class WaitsQuery(EndpointInput, frozen=True, kw_only=True):
    """A page of all waits, of the questions for people, or of the other waits."""

    asks: bool | None = None
    limit: int = 50
    cursor: str | None = None


async def list_waits(call: Call, query: WaitsQuery) -> OpenWaits:
    """List the waits for signals that have no answer, the longest first.

    With `asks=true`, only the questions for people; with `asks=false`, only the others.
    """
    found = await call.read(signals.open_waits(call.queue, asks=query.asks, limit=query.limit, cursor=query.cursor))
    return OpenWaits(waits=call.all_scrubbed(found.waits), next_cursor=found.next_cursor)


async def signal_job(call: Call, id: int, name: str, body: SignalInput) -> Signalled:
    """Send a signal to a job whose handler waits for it, now or later.

    A value that does not fit the type or the choices of the wait is refused. A choice may be sent as it is shown. With
    `position`, the signal is only for the wait at that position of the steps, and is refused if that has an answer
    already.
    """
    meant = await call.read(signals.meant(call.queue, id, name, body.value, body.position))
    await call.change(signals.signal(call.queue, id, *meant, position=body.position, key=body.key, actor=call.actor))
    return Signalled(job=call.scrubbed(await call.read(inspect.get_row(call.queue, id))), name=name)

"""Waiting for you: what handlers ask people, and the other signals that they wait for, each with a form."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec
from starlette.requests import Request

from rowcall.domain.question import choices_of, prompt_of, skeleton_of
from rowcall.domain.step import OpenWait
from rowcall.http.api.signals import WaitsQuery, list_waits
from rowcall.http.endpoint import Call
from rowcall.http.pages.forms import query_of
from rowcall.overview.liveness import time_now

MOST_LISTED = 50


class AnswerForm(NamedTuple):
    """A wait as a form: buttons for its choices, or else a field."""

    wait: OpenWait
    prompt: str | None
    choices: list[tuple[str, str]]
    """The label of each button, and the JSON that it sends."""
    takes_text: bool
    skeleton: str
    """What is in the field at first."""


def asked(waits: Iterable[OpenWait]) -> list[AnswerForm]:
    return [_asked(wait) for wait in waits]


def _asked(wait: OpenWait) -> AnswerForm:
    kind = (wait.expects or {}).get("type")
    choices = [(choice, msgspec.json.encode(choice).decode()) for choice in choices_of(wait.question, wait.expects)]
    if kind == "boolean":
        choices = [("yes", "true"), ("no", "false")]
    return AnswerForm(wait, prompt_of(wait.question), choices, kind == "string", skeleton_of(wait.expects))


async def waiting_list(call: Call, request: Request) -> dict[str, object]:
    query = msgspec.structs.replace(query_of(request, WaitsQuery), limit=MOST_LISTED)
    listed = await list_waits(call, query)
    return {
        "page": "waiting",
        "asks": query.asks,
        "asked": asked(listed.waits),
        "next_cursor": listed.next_cursor,
        "now": await call.read(time_now(call.queue)),
    }

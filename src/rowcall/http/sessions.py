"""Tokens, and the sessions of browsers that have signed in with one."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Mapping

from starlette.requests import Request

from rowcall.http.access import Access
from rowcall.http.endpoint import ANSWER_SECONDS, READ_SECONDS
from rowcall.http.server_options import HttpSettings
from rowcall.http.wrong_tokens import WrongTokens
from rowcall.operations.effects import reading_within
from rowcall.operations.notes import has_note, write_note
from rowcall.queue import Queue

SESSION_SECONDS = 12 * 3600


class Sessions:
    """Cookies that are signed with a token: a new token ends all sessions of the old one.

    A session that was ended is noted in the database, for all processes, until its cookie would be over anyway.
    """

    def __init__(self, queue: Queue, settings: HttpSettings) -> None:
        self._queue = queue
        self._tokens = settings.tokens
        self._wrong_tokens = WrongTokens(queue.clock, delays=settings.streams)

    async def find(self, request: Request, token: str) -> Access | None:
        """Return what a token allows. A wrong one is logged, and answered later if there were several."""
        access = find_token(self._tokens, token)
        if access is None:
            await self._wrong_tokens.slow_down(request)
        return access

    def cookie(self, token: str) -> str:
        """Return the cookie for a visitor who knows a token."""
        content = f"{int(self._queue.clock.wall()) + SESSION_SECONDS:x}.{secrets.token_hex(16)}"
        return f"{content}.{_signature(token, content)}"

    async def access(self, cookie: str) -> Access | None:
        """Return who has the session, or None if it is over or was never there."""
        access = self._signed(cookie)
        if access is None:
            return None
        reading = reading_within(has_note(self._queue, _name(cookie)), READ_SECONDS)
        was_ended = await self._queue.clock.within(self._queue.arun(reading), ANSWER_SECONDS)
        return None if was_ended else access

    async def end(self, cookie: str) -> None:
        """End the session, wherever its cookie is sent from."""
        if self._signed(cookie) is not None:
            await self._queue.arun(write_note(self._queue, _name(cookie), SESSION_SECONDS))

    def _signed(self, cookie: str) -> Access | None:
        content, _, signature = cookie.rpartition(".")
        matching = None
        for token, access in self._tokens.items():
            if hmac.compare_digest(_signature(token, content).encode(), signature.encode()):
                matching = access
        try:
            return matching if int(content.partition(".")[0], 16) > self._queue.clock.wall() else None
        except ValueError:
            return None


def _signature(token: str, content: str) -> str:
    return hmac.new(token.encode(), f"rowcall session {content}".encode(), hashlib.sha256).hexdigest()


def _name(cookie: str) -> str:
    return f"session:{cookie.split('.')[1]}"


def find_token(tokens: Mapping[str, Access], candidate: str) -> Access | None:
    """Compare with every token, each in constant time."""
    matching = None
    for token, access in tokens.items():
        if hmac.compare_digest(token.encode(), candidate.encode("utf-8", "replace")):
            matching = access
    return matching

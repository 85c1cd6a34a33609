"""Texts about durable steps."""

from __future__ import annotations

from rowcall.store.postgres.jobs import live as _live

current = _live.replace("for update", "for share")

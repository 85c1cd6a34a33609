"""Texts about durable steps."""

from __future__ import annotations

from rowcall.store.sqlite.jobs import live as _live

current = _live

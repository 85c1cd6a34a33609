"""Texts about durable steps."""

from __future__ import annotations

from rowcall.store.sqlite.ends import FENCES

current = f"select json_group_array(json_array(claim.job_id, claim.lease, claim.holder)) from {FENCES}"

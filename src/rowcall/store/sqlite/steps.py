"""Texts about durable steps."""

from __future__ import annotations

from rowcall.store.sqlite.ends import FENCES

free_waiting = "select id from <job> where id <in_ids:1> and +status in <waiting>"
current = f"select json_group_array(json_array(claim.job_id, claim.lease, claim.holder)) from {FENCES}"

"""Texts about durable steps."""

from __future__ import annotations

from rowcall.store.postgres.ends import FENCES

current = f"""
    select mine.* from {FENCES} cross join lateral (
      select job_id, lease, holder from <claim> as claim where claim.job_id = given.job_id
        and claim.lease = given.lease and claim.holder = given.holder for share) as mine"""

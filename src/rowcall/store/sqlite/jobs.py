"""Texts about jobs and workers."""

from __future__ import annotations

any_tag = "select exists (select 1 from <job_tag>)"
# it returns rows, as a statement on a caller's connection has to
retag = """
    update <job_tag> set status = (select status from <job> where id = job_id)
    where job_id in (select value from json_each($1)) returning job_id"""

"""Texts about waiting for the end of jobs."""

from __future__ import annotations

ends = """
    select given.value, 1 from json_each($1) as given
    where not exists (select 1 from <job> where id = given.value and status not in <finished>)"""

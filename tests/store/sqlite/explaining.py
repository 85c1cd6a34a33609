"""How SQLite would run a statement: the steps of its plan that read jobs, ready jobs and claims."""

from __future__ import annotations

import re
import sqlite3

from rowcall.store.sqlite.dialect import catalogue
from tests.store.databases import PREFIX, query_plan

TEXTS = catalogue(PREFIX).texts()
BY_ID = "USING INTEGER PRIMARY KEY (rowid=?)"
BY_RUN_OF_IDS = "USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"

_TABLE = re.compile(r"(SCAN|SEARCH) (rowcall_)?(job|ready|claim)\b")
_CO_ROUTINE = re.compile(r"CO-ROUTINE (\w+)")


def steps_of(database: sqlite3.Connection, sql: str) -> list[str]:
    """Return how the tables are read, without their aliases and without what was found by an inner query."""
    plan = query_plan(database, sql)
    assert "USE TEMP B-TREE FOR ORDER BY" not in plan, plan
    found_before = {f"SCAN {name}" for line in plan for name in _CO_ROUTINE.findall(line)}
    lines = [line for line in plan if _TABLE.match(line) and line not in found_before]
    return [_TABLE.sub(r"\1 \3", line) for line in lines]

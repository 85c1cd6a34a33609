"""Functions that run with their owner's rights look nothing up where a caller may have put something."""

from __future__ import annotations

import re

import psycopg
import pytest

from rowcall import Rowcall
from rowcall.store.postgres.schema import CODE
from rowcall.testing.postgres_database import database_of

pytestmark = pytest.mark.no_tables

TRAP = """
create function trap.spring(bigint) returns bigint language plpgsql as $$
begin
  insert into public.sprung select current_user::text;
  return 0;
end $$
"""


def test_a_user_who_may_delete_jobs_runs_nothing_as_their_owner(postgres_url: str) -> None:
    with Rowcall(postgres_url) as jobs, psycopg.connect(postgres_url, autocommit=True) as owner:
        jobs.enqueue("send")
        jobs.cancel(1)
        role = f"mallory_{database_of(postgres_url)}"
        owner.execute("create table public.sprung (who text)")
        owner.execute("grant insert on public.sprung to public")
        owner.execute(f"create role {role}".encode())
        try:
            owner.execute(f"create schema trap authorization {role}".encode())
            owner.execute(f"grant select, insert, delete on rowcall_job to {role}".encode())
            owner.execute(f"set role {role}".encode())
            owner.execute(TRAP)
            owner.execute("create operator trap.- (rightarg = bigint, function = trap.spring)")
            owner.execute("set search_path = trap, pg_catalog, public")
            owner.execute("delete from public.rowcall_job")
            owner.execute("reset search_path")
            owner.execute("reset role")
            assert owner.execute("select who from sprung").fetchall() == []
            assert jobs.stats().total == 0
        finally:
            owner.execute("reset role")
            owner.execute(f"drop owned by {role} cascade".encode())
            owner.execute(f"drop role {role}".encode())


FUNCTIONS = [part.create for part in CODE if "security definer" in part.create and "set search_path" not in part.create]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_without_its_own_search_path_every_name_says_where_it_is_from(function: str) -> None:
    body = function.partition("$body$")[2].partition("$body$")[0]
    body = re.sub(r"'[^']*'|operator\(pg_catalog\.[^)]*\)", "", body)
    assert re.findall(r"(?<![.\w])(?:now|count|clock_timestamp|current_setting|pg_notify|min|max|sum)\s*\(", body) == []
    compared = body.replace("set finished_at = created_at", "")
    assert re.findall(r"\s(?:=|<>|<|>|-|\+|\|\|)\s", compared) == []

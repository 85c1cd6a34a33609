"""Rowcall's tables, read through SQLAlchemy."""

from __future__ import annotations

from sqlalchemy import MetaData, create_engine, inspect, select
from sqlalchemy.orm import Session

from rowcall import Rowcall
from rowcall.sqlalchemy import add_tables
from rowcall.testing import FakeClock
from tests.integrations.alchemy import alchemy


def test_jobs_are_read_as_values(url: str) -> None:
    tables = add_tables(MetaData())
    job = tables["job"]
    engine = create_engine(alchemy(url))
    with Rowcall(url, clock=FakeClock()) as jobs, Session(engine) as session:
        mail = jobs.enqueue("send_email", {"to": "a"}, tags=["red"])
        jobs.enqueue("other", delay=60)
        query = select(job.c.id, job.c.run_at, job.c.payload, job.c.tags, job.c.status)
        (found,) = session.execute(query.where(job.c.run_at <= mail.run_at))
        assert tuple(found) == (mail.id, mail.run_at, {"to": "a"}, ["red"], "pending")
        for table in tables.values():
            session.execute(select(table)).all()
            real = {column["name"] for column in inspect(engine).get_columns(table.name)}
            assert {column.name for column in table.columns} <= real
            keys = inspect(engine).get_pk_constraint(table.name)["constrained_columns"]
            assert sorted(keys) == sorted(column.name for column in table.primary_key)
    engine.dispose()


def test_another_prefix() -> None:
    assert add_tables(MetaData(), "jobs_")["job"].name == "jobs_job"

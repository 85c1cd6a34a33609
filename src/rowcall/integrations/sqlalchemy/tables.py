"""Rowcall's tables for SQLAlchemy: to read them, join them, and refer to jobs by foreign keys."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

import sqlalchemy
from sqlalchemy import BigInteger, Column, DateTime, Dialect, Float, Integer, MetaData, SmallInteger, Table, Text
from sqlalchemy.dialects.mysql import DATETIME
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.types import JSON, TypeDecorator, TypeEngine

from rowcall.base.times import milliseconds_of, time_of
from rowcall.domain.config import configure
from rowcall.store.schema import TABLES

DEFAULT_PREFIX = "rowcall_"
OWNER = "rowcall"


class UtcDateTime(TypeDecorator[datetime]):
    """An aware datetime: a timestamp on PostgreSQL, milliseconds since 1970 on SQLite, UTC without a zone elsewhere."""

    impl = DateTime(timezone=True)
    cache_ok = True
    _kinds: Mapping[str, TypeEngine[Any]] = MappingProxyType(
        {"sqlite": BigInteger(), "mysql": DATETIME(fsp=3), "mariadb": DATETIME(fsp=3)}
    )

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        return dialect.type_descriptor(self._kinds.get(dialect.name) or DateTime(timezone=True))

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> Any:
        if value is None or dialect.name not in self._kinds:
            return value
        return milliseconds_of(value) if dialect.name == "sqlite" else value.astimezone(UTC).replace(tzinfo=None)

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:
        if not isinstance(value, datetime):
            return time_of(value) if isinstance(value, int) else None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value


_NUMBER = BigInteger().with_variant(Integer(), "sqlite")
_JSON = JSON().with_variant(JSONB(), "postgresql")
_TYPES: dict[str, TypeEngine[Any]] = {
    **dict.fromkeys(("text", "key", "name", "status", "spelled", "value"), Text()),
    **dict.fromkeys(("int", "whole", "count", "limit"), Integer()),
    **dict.fromkeys(("identity", "rowid", "job_key", "bigint", "number", "lease"), _NUMBER),
    **dict.fromkeys(("time", "moment"), UtcDateTime()),
    **dict.fromkeys(("real", "seconds"), Float()),
    **dict.fromkeys(("json", "tags"), _JSON),
    "flag": SmallInteger(),
}


def add_tables(metadata: MetaData, table_prefix: str = DEFAULT_PREFIX) -> dict[str, Table]:
    """Add Rowcall's tables to your metadata, and return them by their names without the prefix.

        job = add_tables(Base.metadata)["job"]
        session.execute(select(job.c.id, job.c.status).where(job.c.type == "send_email"))

    They are for reading and for foreign keys: the triggers and views belong to `rowcall migrate`. With Alembic, pass
    `include_object` too.
    """
    prefix = configure(None, without_url=True, table_prefix=table_prefix).table_prefix
    return {name: _table(metadata, f"{prefix}{name}", columns) for name, columns in TABLES.items()}


def _table(metadata: MetaData, name: str, columns: str) -> Table:
    lines = [line.split() for line in columns.strip().splitlines()]
    keys = {column.strip("(),") for words in lines if words[:2] == ["primary", "key"] for column in words[2:]}
    described = [
        _column(name, kind, " ".join(rest), is_key=name in keys)
        for name, kind, *rest in lines
        if name not in ("primary", "constraint")
    ]
    return Table(name, metadata, *described, info={OWNER: True})


def _column(name: str, kind: str, constraints: str, *, is_key: bool) -> sqlalchemy.Column[Any]:
    primary = is_key or "primary key" in constraints or kind in ("identity", "rowid", "job_key")
    return Column(
        name,
        _TYPES[kind.removesuffix("?")],
        primary_key=primary,
        nullable="not null" not in constraints and not primary,
    )

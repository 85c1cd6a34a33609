"""URLs of SQLAlchemy, with drivers that the tests have."""

from __future__ import annotations

SYNC = {"sqlite": "sqlite", "postgresql": "postgresql+psycopg", "mysql": "mysql+pymysql"}
ASYNC = {"sqlite": "sqlite+aiosqlite", "postgresql": "postgresql+asyncpg", "mysql": "mysql+asyncmy"}


def alchemy(url: str, drivers: dict[str, str] = SYNC) -> str:
    """Return the URL of SQLAlchemy for one of Rowcall's."""
    scheme, mark, location = url.partition("://")
    return f"{drivers[scheme]}{mark}{location}"

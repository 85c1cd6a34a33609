"""SQLAlchemy, SQLModel and Alembic. See docs/sqlalchemy.md."""

from rowcall.integrations.sqlalchemy.alembic import include_name, include_name_with, include_object, migrate
from rowcall.integrations.sqlalchemy.tables import add_tables

__all__ = ["add_tables", "include_name", "include_name_with", "include_object", "migrate"]

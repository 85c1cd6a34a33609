"""SQLAlchemy, SQLModel and Alembic: `rowcall.sqlalchemy`."""

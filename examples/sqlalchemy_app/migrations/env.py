from alembic import context
from app import Base, engine

from rowcall.sqlalchemy import include_name, include_object

with engine.connect() as connection:
    context.configure(
        connection=connection,
        target_metadata=Base.metadata,
        include_name=include_name,  # do not drop Rowcall's tables
        include_object=include_object,  # and do not create those of add_tables
    )
    with context.begin_transaction():
        context.run_migrations()

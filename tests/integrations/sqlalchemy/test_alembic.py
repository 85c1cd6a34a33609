"""`alembic revision --autogenerate` next to Rowcall's tables, and a revision that makes them."""

from __future__ import annotations

from pathlib import Path

import alembic.config
import pytest
import sqlalchemy

from rowcall import InvalidOption, Rowcall, SchemaMismatch
from rowcall.sqlalchemy import include_name_with, migrate
from tests.integrations.alchemy import alchemy

ENV = """
from alembic import context
from sqlalchemy import BigInteger, Column, ForeignKey, Integer, MetaData, NullPool, Table, create_engine
import rowcall.sqlalchemy

metadata = MetaData()
Table("orders", metadata, Column("id", Integer, primary_key=True){reference})
{tables}
engine = create_engine({url!r}, poolclass=NullPool)
with engine.connect() as connection:
    context.configure(connection=connection, target_metadata=metadata, {options})
    with context.begin_transaction():
        context.run_migrations()
"""
SCRIPT = """
revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}
from alembic import op
import sqlalchemy as sa

def upgrade():
    ${upgrades if upgrades else "pass"}

def downgrade():
    ${downgrades if downgrades else "pass"}
"""
LEAVE_OUT = "include_name=rowcall.sqlalchemy.include_name"

# before the first revision there is no table to reflect, and then SQLAlchemy reflects all of them
pytestmark = pytest.mark.filterwarnings("ignore:Skipped unsupported reflection of expression-based index")


def revise(folder: Path, url: str, options: str, *, reference: str = "", tables: str = "") -> str:
    """Run alembic as its command does, and return the revision that it wrote."""
    scripts = folder / "migrations"
    (scripts / "versions").mkdir(parents=True)
    (scripts / "env.py").write_text(
        ENV.format(url=alchemy(url), options=options, reference=reference, tables=tables), encoding="utf-8"
    )
    (scripts / "script.py.mako").write_text(SCRIPT, encoding="utf-8")
    (folder / "alembic.ini").write_text(f"[alembic]\nscript_location = {scripts}\n", encoding="utf-8")
    command(folder, "revision", "--autogenerate", "-m", "orders")
    (written,) = (scripts / "versions").glob("*.py")
    return written.read_text(encoding="utf-8")


def command(folder: Path, *words: str) -> None:
    alembic.config.main(["-q", "-c", str(folder / "alembic.ini"), *words])


def upgrade_in(revision: str) -> str:
    return revision[revision.index("def upgrade") : revision.index("def downgrade")]


@pytest.mark.new_database
def test_autogenerate_leaves_the_tables_alone(url: str, tmp_path: Path) -> None:
    with Rowcall(url) as jobs:
        jobs.migrate()
        upgrade = upgrade_in(revise(tmp_path, url, LEAVE_OUT))
        assert "create_table('orders'" in upgrade
        assert "rowcall_" not in upgrade
        assert "drop" not in upgrade
        command(tmp_path, "upgrade", "head")
        assert jobs.enqueue("anything").id == 1


def test_without_it_they_would_be_dropped(tmp_path: Path) -> None:
    """What the others are compared with."""
    url = f"sqlite:///{tmp_path}/app.db"
    with Rowcall(url) as jobs:
        jobs.migrate()
    assert "drop_table('rowcall_job')" in revise(tmp_path, url, "")


@pytest.mark.new_database
def test_a_foreign_key_to_a_job(url: str, tmp_path: Path) -> None:
    with Rowcall(url) as jobs:
        jobs.migrate()
        upgrade = upgrade_in(
            revise(
                tmp_path,
                url,
                f"{LEAVE_OUT}, include_object=rowcall.sqlalchemy.include_object",
                reference=', Column("job_id", BigInteger, ForeignKey("rowcall_job.id"))',
                tables="rowcall.sqlalchemy.add_tables(metadata)",
            )
        )
        assert "['rowcall_job.id']" in upgrade
        assert upgrade.count("create_table") == 1
        assert "drop" not in upgrade
        command(tmp_path, "upgrade", "head")


@pytest.mark.no_tables
def test_a_revision_can_make_the_tables(url: str) -> None:
    engine = sqlalchemy.create_engine(alchemy(url))
    with Rowcall(url, auto_migrate=False, table_prefix="jobs_") as jobs:
        with pytest.raises(SchemaMismatch):
            jobs.enqueue("anything")
        with engine.begin() as connection:
            path = "show search_path" if engine.dialect.name == "postgresql" else "select 1"
            before = connection.exec_driver_sql(path).scalar()
            found, newest = migrate(connection, "jobs_")
            assert found == 0 < newest
            assert migrate(connection, "jobs_") == (newest, newest)
            assert connection.exec_driver_sql(path).scalar() == before
        assert jobs.enqueue("anything").id == 1
        assert jobs.claim("hand")
    engine.dispose()


def test_wrong_calls_are_refused() -> None:
    with pytest.raises(InvalidOption, match=r"must be a SQLAlchemy Connection, such as op\.get_bind\(\), got 3"):
        migrate(3)  # type: ignore[arg-type]
    with pytest.raises(InvalidOption, match="table_prefix"):
        include_name_with("Jobs-")


def test_the_first_transaction_after_a_revision_can_enqueue(tmp_path: Path) -> None:
    """It has locked the file before Rowcall opens it, so the file must be in the right mode by then."""
    engine = sqlalchemy.create_engine(f"sqlite:///{tmp_path}/app.db")
    with engine.begin() as connection:
        migrate(connection)
    with Rowcall(tmp_path / "app.db", auto_migrate=False, busy_timeout=0.1) as jobs:
        with engine.begin() as connection:
            connection.exec_driver_sql("create table orders (id integer primary key)")
            connection.exec_driver_sql("insert into orders default values")
            jobs.enqueue("send", connection=connection)
        assert len(jobs.list()) == 1
    engine.dispose()

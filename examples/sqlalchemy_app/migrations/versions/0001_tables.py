"""Make the tables of the queue and of the app."""

import sqlalchemy as sa
from alembic import op

import rowcall.sqlalchemy

revision = "0001"
down_revision = None


def upgrade() -> None:
    rowcall.sqlalchemy.migrate(op.get_bind())
    number = sa.BigInteger().with_variant(sa.Integer(), "sqlite")  # as the id of a job
    op.create_table(
        "orders",
        sa.Column("id", sa.Integer(), primary_key=True),
        sa.Column("item", sa.String(200), nullable=False, unique=True),
        sa.Column("receipts", sa.Integer(), nullable=False),
        sa.Column("job_id", number, sa.ForeignKey("rowcall_job.id", ondelete="SET NULL")),
    )


def downgrade() -> None:
    op.drop_table("orders")

"""Orders and their receipts: SQLAlchemy writes both, and Alembic makes the tables of both."""

import os

from flask import Flask, request
from sqlalchemy import ForeignKey, String, create_engine, make_url, select
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from rowcall import Context, Rowcall
from rowcall.sqlalchemy import add_tables

DATABASE_URL = os.environ.get("DATABASE_URL", "sqlite:///app.db")  # or postgresql://… or mysql://…

jobs = Rowcall(DATABASE_URL, auto_migrate=False)  # revisions of Alembic make the tables

drivers = {"sqlite": "sqlite", "postgresql": "postgresql+psycopg", "mysql": "mysql+pymysql"}
url = make_url(DATABASE_URL)
engine = create_engine(url.set(drivername=drivers[url.drivername]))


class Base(DeclarativeBase):
    pass


job_table = add_tables(Base.metadata)["job"]  # to join it, and for foreign keys


class Order(Base):
    __tablename__ = "orders"
    id: Mapped[int] = mapped_column(primary_key=True)
    item: Mapped[str] = mapped_column(String(200), unique=True)
    receipts: Mapped[int] = mapped_column(default=0)
    job_id: Mapped[int | None] = mapped_column(ForeignKey("rowcall_job.id", ondelete="SET NULL"))


@jobs.task(queue="mail")
def send_receipt(ctx: Context, order_id: int) -> None:
    print(f"Receipt of order {order_id}", flush=True)  # a real app sends its mail here; this line may run twice
    with Session(engine) as session, session.begin():
        session.get_one(Order, order_id).receipts += 1
        ctx.complete("sent", connection=session)  # the count and the end of the job: both or neither


app = Flask(__name__)


@app.post("/orders")
def place_order() -> tuple[dict[str, object], int]:
    with Session(engine) as session, jobs.bind(session):
        order = Order(item=request.get_json()["item"])
        session.add(order)
        session.flush()  # the order has its id now
        order.job_id = send_receipt.enqueue(order.id).id
        if order.item == "moon":
            return {"error": "sold out"}, 409  # nothing is committed: no order, no job
        session.commit()
        return {"order": order.id, "job": order.job_id}, 201


@app.get("/orders")
def orders() -> list[dict[str, object]]:
    """Return all orders, each with the status of its job."""
    found = select(Order, job_table.c.status).outerjoin(job_table, job_table.c.id == Order.job_id).order_by(Order.id)
    with Session(engine) as session:
        return [
            {"item": order.item, "receipts": order.receipts, "job": status} for order, status in session.execute(found)
        ]

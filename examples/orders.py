"""A shop in one file: an order and its email job are one transaction, and a worker in the same process runs the job.

Run: python examples/orders.py
"""

import sqlite3
import sys
import threading
from contextlib import closing
from pathlib import Path

from rowcall import Backoff, Context, Rowcall

path = Path(sys.argv[1] if len(sys.argv) > 1 else "shop.db")
jobs = Rowcall(path)
all_sent = threading.Event()


@jobs.task(queue="mail", max_attempts=5, retry=Backoff.constant(0.2))
def confirm(ctx: Context, order_id: int, to: str) -> str:
    if ctx.job.attempt == 1:
        raise ConnectionError("the mail server does not answer the first attempt")
    all_sent.set()
    return f"order {order_id} confirmed to {to} on attempt {ctx.job.attempt}"


def place_order(connection: sqlite3.Connection, item: str, to: str) -> int:
    """Write the order and the job that confirms it: both or neither. Return the id of the job."""
    with connection:
        placed = connection.execute("INSERT INTO shop_order (item) VALUES (?)", (item,))
        order_id = placed.lastrowid
        assert order_id is not None
        return confirm.using(connection=connection).enqueue(order_id, to=to).id


if __name__ == "__main__":
    with jobs, closing(sqlite3.connect(path)) as connection:
        jobs.migrate()
        connection.execute("CREATE TABLE IF NOT EXISTS shop_order (id INTEGER PRIMARY KEY, item TEXT NOT NULL)")
        with jobs.worker(concurrency=5):
            job_id = place_order(connection, "a book", "ann@example.com")
            all_sent.wait(10)
        print(jobs.get(job_id).result)
        for event in jobs.timeline(job_id):
            print(f"{event.at:%H:%M:%S.%f} {event.event:<16} {event.detail or ''}")

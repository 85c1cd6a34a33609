"""The background work of a printing shop: ten tasks."""

import os

from rowcall.compat.celery import (
    Celery,
    Ignore,
    MaxRetriesExceededError,
    Task,
    chain,
    crontab,
    current_task,
    get_task_logger,
    group,
    shared_task,
)

logger = get_task_logger(__name__)

app = Celery(
    "tasks",
    broker=os.environ.get("BROKER_URL", "redis://localhost:6379/0"),
    backend=os.environ.get("RESULT_BACKEND", "redis://localhost:6379/1"),
)
app.conf.update(
    task_serializer="json",
    accept_content=["json"],
    task_routes={"tasks.mail_*": {"queue": "mail"}},
    beat_schedule={"nightly": {"task": "tasks.clean_up", "schedule": crontab(minute=0, hour=3), "args": (30,)}},
)
app.conf.timezone = "Europe/Berlin"


@app.on_after_configure.connect
def set_up_periodic_tasks(sender, **kwargs):
    sender.add_periodic_task(300.0, count_paper.s(), name="paper")


class Logged(Task):
    """A task that logs how it ended."""

    def on_failure(self, exc, task_id, args, kwargs, einfo):
        logger.error("%s failed: %r", self.name, exc)

    def on_success(self, retval, task_id, args, kwargs):
        logger.info("%s returned %r", self.name, retval)


@app.task(base=Logged, bind=True, max_retries=2, default_retry_delay=1)
def charge(self, title, pages):
    """Charge for a book. The bank does not answer the first time."""
    if title == "moon":
        raise ValueError("the moon is not for sale")
    try:
        if self.request.retries == 0:
            raise ConnectionError("the bank does not answer")
    except ConnectionError as exc:
        raise self.retry(exc=exc)
    return {"title": title, "price": 2 * pages}


@app.task(autoretry_for=(OSError,), retry_backoff=True, max_retries=5)
def print_page(title, number):
    return f"{title}, page {number}"


@app.task
def bind_book(pages):
    return {"pages": len(pages), "first": pages[0]}


@app.task(bind=True)
def pack(self, book):
    for step in range(3):
        self.update_state(state="PROGRESS", meta={"current": step, "total": 3})
    return {**book, "parcel": self.request.id}


@shared_task(queue="parcels", ignore_result=False)
def ship(book):
    return {**book, "shipped": True}


@app.task
def mail_receipt(book, to):
    logger.warning("mail to %s about %s pages", to, book["pages"])


@app.task
def report_failure(request, exc, traceback):
    logger.warning("order failed in %s: %s", request.task, exc)


@app.task(name="tasks.clean_up")
def clean_up(days):
    return f"older than {days} days"


@app.task
def count_paper():
    return {"sheets": 500, "counted_by": current_task.request.id}


@app.task(bind=True, max_retries=1)
def recount(self, sheets):
    if sheets < 0:
        raise Ignore()
    try:
        raise self.retry(countdown=0)
    except MaxRetriesExceededError:
        return sheets


def place_order(title, pages, to):
    """Enqueue an order: charge, print all pages side by side, bind, pack, ship. Return the result of the last call."""
    order = chain(
        charge.s(title, pages),
        group(print_page.si(title, number) for number in range(1, pages + 1)),
        bind_book.s(),
        pack.s(),
        ship.s(),
    )
    return order.apply_async(link=mail_receipt.s(to), link_error=report_failure.s())

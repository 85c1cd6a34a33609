from __future__ import annotations

from typing import Any

from django.db import transaction
from django.db.models import F

from rowcall import Context, Retry
from rowcall.django import jobs
from rowcall.integrations.django.framework import TaskContext
from tests.integrations.django.framework import task
from tests.integrations.django.shop.models import Order


@jobs.task(max_attempts=3)
def confirm(order_id: int) -> int:
    return int(Order.objects.filter(id=order_id).update(confirmed=F("confirmed") + 1))


@task
def add(*args: int, **kwargs: int) -> int:
    return sum(args) + sum(kwargs.values())


@task
async def add_async(*args: int) -> int:
    return sum(args)


@task
def fail(message: str) -> None:
    raise ValueError(message)


@task(takes_context=True)
def describe(context: TaskContext, word: str) -> list[Any]:
    return [context.task_result.id, context.attempt, context.task_result.task.name, word]


@task
def unserializable() -> object:
    return object()


@task
def fail_twice() -> None:
    raise ConnectionError("no answer")


@task
def ask_for_a_retry() -> None:
    raise Retry(delay=60)


@task(takes_context=True)
def count_attempts(context: TaskContext) -> list[int]:
    if context.attempt == 1:
        raise Retry(delay=60)
    return [context.attempt, len(context.task_result.errors)]


@task
def measure(text: str) -> int:
    return len(text)


@jobs.task
async def count_orders() -> int:
    return int(await Order.objects.acount())


@jobs.task
def confirm_later(order_id: int) -> None:
    confirm.enqueue(order_id)


@jobs.task
def order_twice() -> None:
    first = Order.objects.create(item="book")
    Order.objects.create(id=first.id, item="another")


@jobs.task
def complete_itself(ctx: Context) -> None:
    with transaction.atomic():
        ctx.complete("done", connection="default")

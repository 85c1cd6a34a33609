import time

from django.conf import settings
from django.db import transaction
from django.db.models import F

from rowcall import Context
from rowcall.django import jobs
from shop.models import Order

try:
    from django.tasks import task
except ModuleNotFoundError:  # Django 5.2, with the package django-tasks
    from django_tasks import task


@jobs.task(max_attempts=3)
def confirm(ctx: Context, order_id: int) -> None:
    """Send the confirmation: a task of Rowcall, with retries."""
    order = Order.objects.get(id=order_id)
    print(f"sending mail about order {order.id} to {order.address}", flush=True)  # this line may run twice
    time.sleep(settings.MAIL_SECONDS)
    with transaction.atomic():
        Order.objects.filter(id=order_id).update(confirmations=F("confirmations") + 1)
        invoice.enqueue(order_id)
        ctx.complete("confirmed", connection="default")  # the count, the next job and the end of this one: all or none


@task
def invoice(order_id: int) -> int:
    """Write the invoice: a task of Django."""
    return Order.objects.filter(id=order_id).update(invoiced=True)

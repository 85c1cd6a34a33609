import json

from django.db import transaction
from django.http import HttpRequest, JsonResponse
from django.views.decorators.csrf import csrf_exempt

from shop.models import Order
from shop.tasks import confirm

STOCK = ("book", "pen")


class SoldOut(Exception):
    pass


@csrf_exempt
def orders(request: HttpRequest) -> JsonResponse:
    """Place an order, or list all of them."""
    if request.method != "POST":
        return JsonResponse({"orders": list(Order.objects.values("id", "item", "confirmations", "invoiced"))})
    form = json.loads(request.body)
    try:
        with transaction.atomic():
            order = Order.objects.create(item=form["item"], address=form["address"])
            job = confirm.enqueue(order.id)  # part of this block
            if order.item not in STOCK:
                raise SoldOut
    except SoldOut:
        return JsonResponse({"error": f"{form['item']} is sold out"}, status=409)  # no order, and no job
    return JsonResponse({"order": order.id, "job": job.id}, status=201)

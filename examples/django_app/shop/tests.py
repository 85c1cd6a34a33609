from django.test import TestCase

from rowcall.django import jobs, run_jobs
from shop.models import Order


class TestOrders(TestCase):
    def order(self, item: str) -> int:
        form = {"item": item, "address": "ann@example.com"}
        return self.client.post("/orders", form, content_type="application/json").status_code

    def test_an_order_is_confirmed_once(self) -> None:
        self.assertEqual(self.order("book"), 201)
        run_jobs()
        order = Order.objects.get()
        self.assertEqual((order.confirmations, order.invoiced), (1, True))

    def test_nothing_is_left_of_an_order_that_fails(self) -> None:
        self.assertEqual(self.order("moon"), 409)
        self.assertEqual((Order.objects.count(), len(jobs.list())), (0, 0))

from django.db import models


class Order(models.Model):
    item = models.CharField(max_length=100)
    address = models.EmailField()
    confirmations = models.IntegerField(default=0)
    invoiced = models.BooleanField(default=False)

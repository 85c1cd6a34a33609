from __future__ import annotations

from django.db import models


class Order(models.Model):
    item = models.TextField()
    confirmed = models.IntegerField(default=0)

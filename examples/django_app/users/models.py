from django.db import models


class User(models.Model):
    address = models.EmailField(primary_key=True)
    name = models.CharField(max_length=100, unique=True)
    welcomes = models.IntegerField(default=0)

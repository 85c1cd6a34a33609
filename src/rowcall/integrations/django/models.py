"""Jobs as a model of Django, for its admin. Rowcall makes the tables, and all changes go through `jobs`."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper

from rowcall.domain.job import Status
from rowcall.integrations.django.site import local
from rowcall.integrations.django.tables import prefix

STATUSES = [(status.value, status.value) for status in Status]


class Moment(models.DateTimeField):
    """A time of Rowcall: in SQLite, milliseconds since 1970."""

    def get_internal_type(self) -> str:
        return "Moment"  # Django's own conversion of times expects text

    def get_db_converters(self, connection: BaseDatabaseWrapper) -> list[Any]:
        return [_from_milliseconds] if connection.vendor == "sqlite" else super().get_db_converters(connection)

    def get_db_prep_value(self, value: Any, connection: BaseDatabaseWrapper, prepared: bool = False) -> Any:
        if connection.vendor == "sqlite" and isinstance(value, datetime):
            return round(value.timestamp() * 1000)
        return super().get_db_prep_value(value, connection, prepared)


def _from_milliseconds(value: object, *_: object) -> datetime | None:
    return local(datetime.fromtimestamp(value / 1000, UTC)) if isinstance(value, int) else None


class Job(models.Model):
    """A row of the view `rowcall_jobs`."""

    id = models.BigIntegerField(primary_key=True)
    type = models.CharField("task", max_length=200)
    queue = models.CharField(max_length=200)
    status = models.CharField(max_length=20, choices=STATUSES)
    priority = models.IntegerField()
    attempt = models.IntegerField("attempts")
    max_attempts = models.IntegerField()
    run_at = Moment()
    created_at = Moment()
    started_at = Moment(null=True)
    finished_at = Moment(null=True)
    worker = models.TextField(null=True)
    error_code = models.TextField(null=True)
    error_detail = models.TextField(null=True)
    key = models.TextField(null=True)

    class Meta:
        managed = False
        db_table = f"{prefix()}jobs"
        ordering = ("-id",)

    def __str__(self) -> str:
        return f"{self.type} {self.id}"

"""Jobs as a model of Django, for its admin. Rowcall makes the tables, and all changes go through `jobs`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper

from rowcall.base.times import milliseconds_of
from rowcall.domain.job import Status
from rowcall.integrations.django.site import aware, local
from rowcall.integrations.django.tables import prefix

STATUSES = [(status.value, status.value) for status in Status]


class Moment(models.DateTimeField):
    """A time of Rowcall: in SQLite, milliseconds since 1970; in MariaDB and MySQL, UTC without a zone."""

    def get_internal_type(self) -> str:
        return "Moment"  # Django's own conversion of times expects text

    def get_db_converters(self, connection: BaseDatabaseWrapper) -> list[Any]:
        given: list[Any] = super().get_db_converters(connection)
        return [_READ[connection.vendor]] if connection.vendor in _READ else given

    def get_db_prep_value(self, value: Any, connection: BaseDatabaseWrapper, prepared: bool = False) -> Any:
        if connection.vendor in _WRITTEN and isinstance(value, datetime):
            return _WRITTEN[connection.vendor](aware(value))
        return super().get_db_prep_value(value, connection, prepared)


def _from_milliseconds(value: object, *_: object) -> datetime | None:
    return local(datetime.fromtimestamp(value / 1000, UTC)) if isinstance(value, int) else None


def _from_utc(value: datetime | None, *_: object) -> datetime | None:
    return None if value is None else local(value.replace(tzinfo=UTC))


_READ = {"sqlite": _from_milliseconds, "mysql": _from_utc}
_WRITTEN: Mapping[str, Callable[[datetime], object]] = MappingProxyType(
    {"sqlite": milliseconds_of, "mysql": lambda time: time.astimezone(UTC).replace(tzinfo=None)}
)


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

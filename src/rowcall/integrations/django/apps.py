"""The Django app. Its modules (`admin`, `migrations`, `management`) are in this folder."""

from __future__ import annotations

from django.apps import AppConfig
from django.db.models.signals import post_migrate

from rowcall.integrations.django.queue import jobs
from rowcall.integrations.django.site import options
from rowcall.integrations.django.tables import after_migrate


class RowcallConfig(AppConfig):
    name = "rowcall.integrations.django"
    label = "rowcall"
    verbose_name = "Rowcall"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        jobs.configure(**options())
        post_migrate.connect(after_migrate, sender=self)

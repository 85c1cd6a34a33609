"""The Django app. Its modules (`admin`, `migrations`, `management`) are in this folder."""

from __future__ import annotations

from django.apps import AppConfig
from django.core.checks import register
from django.core.exceptions import ImproperlyConfigured
from django.db.models.signals import post_migrate

from rowcall.domain.errors import InvalidOption
from rowcall.integrations.django.checks import check_rowcall
from rowcall.integrations.django.queue import jobs
from rowcall.integrations.django.site import options
from rowcall.integrations.django.tables import after_migrate


class RowcallConfig(AppConfig):
    name = "rowcall.integrations.django"
    label = "rowcall"
    verbose_name = "Rowcall"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        try:
            jobs.configure(**options())
        except InvalidOption as error:
            raise ImproperlyConfigured(f"ROWCALL: {error}") from error
        post_migrate.connect(after_migrate, sender=self)
        register(check_rowcall)

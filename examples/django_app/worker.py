"""The module for `rowcall work worker:jobs`: sets Django up, then imports the tasks."""

import os

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "settings")
django.setup()

from users.tasks import jobs  # noqa: E402

__all__ = ["jobs"]

"""What `rowcall work worker:jobs` imports: Django is set up first, then the tasks."""

import os

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "settings")
django.setup()

from users.tasks import jobs  # noqa: E402

__all__ = ["jobs"]

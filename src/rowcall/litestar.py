"""Litestar. See docs/web.md."""

from rowcall.integrations.asgi.background_tasks import Tasks
from rowcall.integrations.litestar.hooks import problem_details, rowcall_tasks

__all__ = ["Tasks", "problem_details", "rowcall_tasks"]

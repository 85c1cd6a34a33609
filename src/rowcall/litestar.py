"""Litestar. See docs/fastapi.md."""

from rowcall.integrations.asgi.tasks import Tasks
from rowcall.integrations.litestar.handlers import problem_details, rowcall_tasks

__all__ = ["Tasks", "problem_details", "rowcall_tasks"]

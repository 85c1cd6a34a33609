"""Starlette. See docs/web.md."""

from rowcall.integrations.asgi.background_tasks import Tasks
from rowcall.integrations.starlette.problem_handler import add_problem_details

__all__ = ["Tasks", "add_problem_details"]

"""FastAPI. See docs/web.md."""

from rowcall.integrations.asgi.background_tasks import Tasks
from rowcall.integrations.fastapi.dependencies import RowcallTasks, jobs_in
from rowcall.integrations.starlette.problem_handler import add_problem_details

__all__ = ["RowcallTasks", "Tasks", "add_problem_details", "jobs_in"]

"""Problem details for apps of Starlette and FastAPI."""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response

from rowcall.domain.errors import RowcallError
from rowcall.integrations.asgi.problems import MEDIA_TYPE, answer_for


def add_problem_details(app: Starlette) -> None:
    """Answer Rowcall's errors with problem details: 404 for `JobNotFound`, 409 for `DuplicateJob`, and so on.

        app = FastAPI()
        add_problem_details(app)

    Other errors, such as wrong options, stay errors of the app (500).
    """
    app.add_exception_handler(RowcallError, _answer)


def _answer(request: Request, error: Exception) -> Response:
    answer = answer_for(error) if isinstance(error, RowcallError) else None
    if answer is None:
        raise error
    status, body, headers = answer
    return Response(body, status, headers, MEDIA_TYPE)

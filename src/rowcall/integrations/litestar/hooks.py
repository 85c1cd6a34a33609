"""What an app of Litestar takes: a dependency, and a handler of exceptions."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from litestar import Request, Response

from rowcall.domain.errors import RowcallError
from rowcall.integrations.asgi.background_tasks import Tasks
from rowcall.integrations.asgi.problems import MEDIA_TYPE, answer_for


async def rowcall_tasks() -> AsyncIterator[Tasks]:
    """Provide `Tasks`, whose jobs are enqueued when the handler returns: `{"background": Provide(rowcall_tasks)}`."""
    async with Tasks() as tasks:
        yield tasks


def problem_details(request: Request[Any, Any, Any], error: RowcallError) -> Response[bytes]:
    """Answer Rowcall's errors with problem details: `exception_handlers={RowcallError: problem_details}`."""
    answer = answer_for(error)
    if answer is None:
        raise error
    status, body, headers = answer
    return Response(body, status_code=status, headers=headers, media_type=MEDIA_TYPE)

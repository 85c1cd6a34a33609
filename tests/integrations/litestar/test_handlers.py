"""An app of Litestar: its lifespan, background tasks, and answers for errors."""

from __future__ import annotations

from pathlib import Path

import pytest
from litestar import Litestar, get, post
from litestar.di import NamedDependency, Provide
from litestar.exceptions import ClientException
from litestar.params import FromPath, FromQuery
from litestar.testing import TestClient

from rowcall import Rowcall, RowcallError
from rowcall.litestar import Tasks, problem_details, rowcall_tasks


@pytest.mark.usefixtures("same_logging")
def test_an_app(tmp_path: Path) -> None:
    jobs = Rowcall(tmp_path / "app.db")

    @jobs.task
    def double(number: int) -> int:
        return 2 * number

    @post("/", dependencies={"background": Provide(rowcall_tasks)})
    async def sign_up(number: FromQuery[int], background: NamedDependency[Tasks]) -> None:
        background.add_task(double, number)
        if number < 0:
            raise ClientException("negative")

    @get("/{job_id:int}", sync_to_thread=True)
    def status(job_id: FromPath[int]) -> str:
        return jobs.get(job_id).status

    app = Litestar(
        [sign_up, status],
        lifespan=[jobs.lifespan_for_app(worker=True)],
        exception_handlers={RowcallError: problem_details},
    )
    with TestClient(app) as client:
        assert client.post("/?number=-1").status_code == 400
        assert client.post("/?number=21").status_code == 201
        (job,) = jobs.list()
        assert jobs.result(job, timeout=20) == 42
        assert client.get(f"/{job.id}").text == "succeeded"
        answer = client.get("/999")
        assert (answer.status_code, answer.headers["content-type"]) == (404, "application/problem+json")
        assert answer.json()["job_id"] == 999
    with Rowcall(tmp_path / "app.db") as again:
        assert again.workers() == []

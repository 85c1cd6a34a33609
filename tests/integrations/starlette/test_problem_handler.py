"""Rowcall's errors as answers of an app of FastAPI or Starlette."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rowcall import InvalidOption, Rowcall
from rowcall.starlette import Tasks, add_problem_details
from tests.integrations.serving import serving


def test_problem_details(tmp_path: Path) -> None:
    with Rowcall(tmp_path / "app.db") as jobs:
        app = FastAPI()
        add_problem_details(app)

        @app.get("/{job_id}")
        async def status(job_id: int) -> str:
            return (await jobs.aget(job_id)).status

        @app.post("/")
        async def wrong() -> None:
            await jobs.aenqueue("send", delay=-1)

        with serving(app) as client:
            answer = client.get("/7")
            assert client.get(f"/{10**23}").json()["detail"] == f"job {10**23} does not exist"
            with pytest.raises(InvalidOption):
                client.post("/")
        assert (answer.status_code, answer.headers["content-type"]) == (404, "application/problem+json")
        assert answer.json() == {
            "type": "about:blank", "title": "Job not found", "status": 404, "detail": "job 7 does not exist",
            "job_id": 7,
        }  # fmt: skip
        with serving(app, raise_errors=False) as client:
            assert client.post("/").status_code == 500


def test_an_app_of_starlette(tmp_path: Path) -> None:
    """Also without FastAPI, which `rowcall.starlette` does not need."""
    with Rowcall(tmp_path / "app.db") as jobs:

        @jobs.task
        def send_email(to: str) -> None: ...

        async def sign_up(request: Request) -> Response:
            async with Tasks() as background:
                background.add_task(send_email, request.query_params["to"])
            return Response((await jobs.aget(int(request.query_params["job"]))).type)

        app = Starlette(routes=[Route("/", sign_up)], lifespan=jobs.lifespan_for_app())
        add_problem_details(app)
        with serving(app) as client:
            assert client.get("/?to=ann&job=1").text == "send_email"
            assert client.get("/?to=ann&job=99").status_code == 404
    program = "import sys; sys.modules['fastapi'] = None; import rowcall.starlette"
    subprocess.run([sys.executable, "-c", program], check=True)

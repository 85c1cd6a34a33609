"""Rowcall's errors as answers of an app of FastAPI."""

from __future__ import annotations

from pathlib import Path

import pytest
from fastapi import FastAPI

from rowcall import InvalidOption, Rowcall
from rowcall.fastapi import add_problem_details
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

"""The dashboard in Flask, under a prefix."""

from __future__ import annotations

import re

from flask import Flask
from werkzeug.middleware.dispatcher import DispatcherMiddleware

from rowcall import Rowcall


def test_flask_serves_pages_the_api_and_forms(filled: Rowcall) -> None:
    app = Flask("shop")
    app.wsgi_app = DispatcherMiddleware(app.wsgi_app, {"/jobs": filled.wsgi()})  # type: ignore[method-assign]
    client = app.test_client()
    page = client.get("/jobs/jobs/2")
    assert page.status_code == 200
    assert 'href="/jobs/static/rowcall.css' in page.text
    assert client.get("/jobs/jobs").status_code == 200
    assert client.get("/jobs/api/jobs/2").get_json()["job"]["status"] == "failed"
    csrf = re.search(r'name="csrf" value="([^"]+)"', page.text)
    assert csrf is not None
    answer = client.post("/jobs/jobs/2/retry", data={"csrf": csrf[1], "return_to": "/jobs/jobs/2"})
    assert (answer.status_code, answer.headers["location"]) == (303, "/jobs/jobs/2")
    assert filled.get(2).status == "pending"

from __future__ import annotations

from tests.http.client import Client


def test_the_questions_are_answered(client: Client) -> None:
    assert client.get("/api/stats?window=60").json()["by_status"]["failed"] == 1
    errors = client.get("/api/errors?type=broken").json()
    assert errors["errors"][0]["error_code"] == errors["failing"][0]["error_code"] == "INTERNAL:ValueError"
    assert client.get("/api/retries").json()["by_attempts"] == {"0": 1, "1": 2}
    assert client.get("/api/stuck").json() == {"jobs": []}
    assert client.get("/api/retention").json()["jobs"] == 2


def test_wrong_questions(client: Client) -> None:
    for path in ("/api/stats?window=0", "/api/stats?window=nan", "/api/errors?limit=0", "/api/stuck?limit=x"):
        assert client.get(path).status_code == 422, path

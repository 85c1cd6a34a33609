from __future__ import annotations

from rowcall import Rowcall
from tests.http.client import client_of

TOKEN = "t" * 20


def test_a_visitor_signs_in_and_out(filled: Rowcall) -> None:
    with client_of(filled, token=TOKEN) as client:
        answer = client.get("/jobs?status=failed")
        assert (answer.status_code, answer.headers["location"]) == (303, "/login?next=%2Fjobs%3Fstatus%3Dfailed")
        wrong = client.submit("/login", "/login", {"token": "wrong", "next": "/jobs"})
        assert wrong.status_code == 403
        assert "not known" in wrong.text
        right = client.submit("/login", "/login", {"token": TOKEN, "next": "/jobs?status=failed"})
        assert right.headers["location"] == "/jobs?status=failed"
        assert "httponly" in right.headers["set-cookie"].lower()
        assert TOKEN not in right.headers["set-cookie"]
        assert client.submit("/jobs/2", "/jobs/2/retry").status_code == 303
        assert "Sign out" in client.page("/")
        cookies = dict(client.http.cookies)
        assert client.submit("/jobs/2", "/logout").headers["location"] == "/login"
        assert client.get("/jobs").status_code == 303
        client.http.cookies.update(cookies)  # of someone who has copied them
        assert client.get("/jobs").status_code == 303
        assert client.post("/api/jobs/2/cancel").status_code == 401


def test_a_link_on_another_site_finds_who_is_signed_in(filled: Rowcall) -> None:
    """A browser sends a strict cookie only after a link on the same site, such as the page to sign in."""
    with client_of(filled, token="a-secret-of-16-or-more") as client:
        login = "/login?next=%2Fjobs%3Ftag%3D%C3%A4%26queue%3Da"
        assert client.get(login, sec_fetch_site="cross-site").headers["refresh"] == "0; url=/jobs?tag=%C3%A4&queue=a"
        assert "refresh" not in client.get(login, sec_fetch_site="same-origin").headers
        for wrong in ("//evil.example", "https://evil.example", "%0Ax"):
            assert client.get(f"/login?next={wrong}", sec_fetch_site="cross-site").headers["refresh"] == "0; url=/"


def test_a_sign_in_needs_its_form(filled: Rowcall) -> None:
    with client_of(filled, token=TOKEN) as client:
        assert client.send("POST", "/login", f"token={TOKEN}".encode()).status_code == 403


def test_without_tokens_there_is_no_sign_in(filled: Rowcall) -> None:
    with client_of(filled) as client:
        assert client.get("/login").status_code == 404

from __future__ import annotations

from rowcall import Rowcall
from tests.http.client import Client, client_of


def test_errors_are_grouped_and_drawn(client: Client) -> None:
    page = client.page("/errors")
    assert "INTERNAL:<wbr>ValueError" in page
    assert "1 failed attempts" in page
    assert "/jobs/confirm?action=retry&amp;status=failed&amp;error_code=INTERNAL%3AValueError" in page
    assert "No errors" in client.page("/errors?type=greet")


def test_without_errors(jobs: Rowcall) -> None:
    with client_of(jobs) as client:
        assert "No errors" in client.page("/errors")

from __future__ import annotations

from rowcall import Limit, Rowcall
from tests.http.client import Client


def test_a_limit_is_set_and_reset_on_its_page(client: Client, filled: Rowcall) -> None:
    assert "No limits" in client.page("/limits")
    for name in "aab":
        filled.enqueue("greet", {"name": name}, limit=Limit("stripe", concurrency=1))
    filled.claim("w", limit=9)
    client.submit("/limits", "/limits/stripe/set", {"concurrency": "2", "rate": "", "per": ""})
    page = client.page("/limits")
    assert "Limit stripe: 2 at once" in page
    assert "declared: the numbers of its jobs" in page
    assert "set: 2 at once; before: 1 at once" in page
    client.submit("/limits", "/limits/stripe/reset")
    assert "Limit stripe has its declared numbers again" in client.page("/limits")

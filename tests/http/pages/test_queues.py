from __future__ import annotations

from rowcall import Rowcall
from tests.http.client import Client


def test_queues_are_paused_and_resumed(client: Client, filled: Rowcall) -> None:
    client.submit("/queues", "/queues/mail/pause")
    page = client.page("/queues")
    assert "Paused queue mail" in page
    assert "/queues/mail/resume" in page
    client.submit("/queues", "/queues/mail/resume")
    client.submit("/queues", "/queues/*/pause")
    assert "Every queue was paused" in client.page("/queues")
    filled.pause(task="greet")
    assert "Paused tasks" in client.page("/queues")


def test_names_of_queues_are_quoted(client: Client, filled: Rowcall) -> None:
    name = "a/b?c=d&e#f%20"
    filled.enqueue("greet", {"name": "a"}, queue=name)
    path = "/queues/a%2Fb%3Fc%3Dd%26e%23f%2520/pause"
    assert f'action="{path}"' in client.page("/queues")
    client.submit("/queues", path)
    assert [one.name for one in filled.paused()] == [name]

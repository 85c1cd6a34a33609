from __future__ import annotations

from rowcall import Rowcall
from tests.http.client import Client


def test_schedules_are_shown_in_words(client: Client, filled: Rowcall) -> None:
    assert "No schedules" in client.page("/schedules")
    filled.add_schedule("nightly", "greet", {"name": "a"}, cron="0 3 * * *", tz="Europe/Berlin")
    filled.add_schedule("often", "greet", {"name": "a"}, every=300)
    page = client.page("/schedules")
    assert "At 03:00 every day" in page
    assert "Every 5 min" in page
    client.submit("/schedules", "/schedules/nightly/run")
    assert "Enqueued job 4" in client.page("/schedules")
    client.submit("/schedules", "/schedules/nightly/pause")
    assert "Schedule nightly is paused" in client.page("/schedules")

from __future__ import annotations

import pytest

from rowcall import InvalidOption, Rowcall
from rowcall.app import queue_of
from rowcall.http.serve import server_of
from rowcall.http.settings import settings


def test_an_open_dashboard_serves_this_machine_only(jobs: Rowcall) -> None:
    with pytest.raises(InvalidOption, match=r"host: '0\.0\.0\.0' can be reached from elsewhere"):
        server_of(queue_of(jobs), settings(), "0.0.0.0", 8642)
    assert server_of(queue_of(jobs), settings(), "::1", 8642).config.port == 8642
    assert server_of(queue_of(jobs), settings(token="t" * 16), "0.0.0.0", 80).config.port == 80

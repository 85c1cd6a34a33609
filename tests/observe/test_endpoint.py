"""Where a worker serves its metrics: a port that is taken, and options that are wrong."""

from __future__ import annotations

import socket

import pytest

from rowcall import InvalidOption, Rowcall
from tests.observe.scraping import is_served


def test_a_port_that_is_taken_is_said_before_the_worker_starts(jobs: Rowcall) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        worker = jobs.worker(metrics_port=port)
        with pytest.raises(InvalidOption, match=f"metrics_port cannot listen at 127.0.0.1:{port}: Address"):
            worker.start()
    assert jobs.workers() == []
    with jobs.worker(metrics_port=port):
        assert is_served(port)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"metrics_port": 0}, "metrics_port must be a port from 1 to 65535, got 0"),
        ({"metrics_port": True}, "metrics_port must be a port"),
        ({"metrics_port": "9464"}, "metrics_port must be a port"),
        ({"metrics_port": 9464, "metrics_host": ""}, "metrics_host must be a name"),
    ],
)
def test_wrong_options_are_refused(jobs: Rowcall, options: dict[str, object], problem: str) -> None:
    with pytest.raises(InvalidOption, match=problem):
        jobs.worker(**options)  # type: ignore[arg-type]

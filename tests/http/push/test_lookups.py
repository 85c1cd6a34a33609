"""Lookups of names whose servers never answer: each costs its own deliveries only."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from rowcall import PushFailed, Rowcall
from rowcall.base.clock import SYSTEM_CLOCK
from rowcall.http.push import lookups
from rowcall.http.push.checked_network import CheckedNetwork
from rowcall.http.push.lookups import Lookups
from tests.http.push.target import TargetServer, options
from tests.support import eventually

Found = list[tuple[object, ...]]


class Resolver:
    """In place of the system's: names that begin with `hang` are not answered until `released` is set."""

    def __init__(self) -> None:
        self.released = threading.Event()
        self.asked: list[str] = []

    def __call__(self, host: str, port: object, **more: object) -> Found:
        self.asked.append(host)
        if host.startswith("hang"):
            assert self.released.wait(60)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 0))]


@pytest.fixture
def resolver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Resolver]:
    found = Resolver()
    with monkeypatch.context() as patched:
        patched.setattr(socket, "getaddrinfo", found)
        yield found
        found.released.set()
        eventually(lambda: not any(thread.name == "rowcall-lookup" for thread in threading.enumerate()))


def test_deliveries_to_other_hosts_go_on(tmp_path: Path, target: TargetServer, resolver: Resolver) -> None:
    with Rowcall(tmp_path / "app.db", push=options(allow_http=True)) as jobs:

        @jobs.push(target.url(host="app.example"))
        def send() -> None: ...

        hanging = [send.using(target=f"http://hang-{n}.example/").enqueue() for n in range(8)]
        with jobs.worker(concurrency=10, grace=0):
            eventually(lambda: len(resolver.asked) == 8)
            healthy = [send.enqueue() for _ in range(3)]
            assert [jobs.result(job, timeout=30) for job in healthy] == [None] * 3
            assert {jobs.get(job).status for job in hanging} == {"running"}
        assert {jobs.get(job).status for job in hanging} == {"pending"}  # the worker could stop


def test_a_lookup_is_shared_and_outlives_those_who_leave(resolver: Resolver) -> None:
    async def run() -> None:
        shared = Lookups()
        asking = [asyncio.create_task(shared.addresses("hang.example", SYSTEM_CLOCK)) for _ in range(5)]
        await asyncio.to_thread(eventually, lambda: resolver.asked)
        asking.pop().cancel()
        resolver.released.set()
        assert await asyncio.gather(*asking) == [["127.0.0.1"]] * 4
        assert await shared.addresses("hang.example", SYSTEM_CLOCK) == ["127.0.0.1"]

    asyncio.run(run())
    assert resolver.asked == ["hang.example"] * 2


def test_a_host_has_a_time_limit_from_the_first_who_asks(resolver: Resolver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookups, "LOOKUP_SECONDS", 0.01)
    for _ in range(3):
        with pytest.raises(PushFailed, match=r"the lookup of hang\.example has not ended") as failed:
            asyncio.run(CheckedNetwork(lambda address: None, SYSTEM_CLOCK).connect_tcp("hang.example", 443))
        assert (failed.value.code, failed.value.final) == ("PUSH:DNS", False)
    assert resolver.asked == ["hang.example"]  # one thread, however many ask


def test_lookups_are_bounded_and_one_that_nobody_waits_for_does_not_begin(
    resolver: Resolver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lookups, "MOST_AT_ONCE", 1)

    async def run() -> list[str]:
        shared = Lookups()
        first = asyncio.create_task(shared.addresses("hang.example", SYSTEM_CLOCK))
        await asyncio.to_thread(eventually, lambda: resolver.asked)
        with monkeypatch.context() as patched:
            patched.setattr(lookups, "LOOKUP_SECONDS", 0.01)
            with pytest.raises(TimeoutError):
                await shared.addresses("left.example", SYSTEM_CLOCK)
        later = asyncio.create_task(shared.addresses("later.example", SYSTEM_CLOCK))
        resolver.released.set()
        await first
        return await later

    assert asyncio.run(run()) == ["127.0.0.1"]
    assert resolver.asked == ["hang.example", "later.example"]


def test_an_address_is_not_looked_up(monkeypatch: pytest.MonkeyPatch, target: TargetServer) -> None:
    monkeypatch.setattr(lookups, "look_up", lambda host: pytest.fail(f"{host} was looked up"))

    async def connect() -> None:
        await (await CheckedNetwork(lambda address: None, SYSTEM_CLOCK).connect_tcp("127.0.0.1", target.port)).aclose()

    asyncio.run(connect())

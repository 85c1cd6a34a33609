"""Addresses are checked after the lookup, and the connection goes to the checked one."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from pathlib import Path

import pytest

from rowcall import Backoff, PushFailed, PushOptions, Rowcall, TaskDefaults
from rowcall.base.clock import SYSTEM_CLOCK
from rowcall.http.push import lookups
from rowcall.http.push.checked_network import CheckedNetwork, default_ssl_context
from tests.http.push.target import CERTIFICATE, SECRET, TargetServer, options, serving

Dns = Callable[..., list[str]]


@pytest.fixture
def dns(monkeypatch: pytest.MonkeyPatch) -> Dns:
    """Let names lead to given addresses, one list for each lookup; returns the names that were looked up."""
    asked: list[str] = []

    def put(*answers: list[str]) -> list[str]:
        remaining = list(answers)

        def look_up(host: str) -> list[str]:
            asked.append(host)
            return remaining.pop(0)

        monkeypatch.setattr(lookups, "look_up", look_up)
        return asked

    return put


def connect(push: PushOptions, host: str, port: int) -> None:
    async def run() -> None:
        stream = await CheckedNetwork(push.refusal, SYSTEM_CLOCK).connect_tcp(host, port)
        await stream.aclose()

    asyncio.run(run())


@pytest.mark.parametrize("address", ["127.0.0.1", "10.0.0.1", "169.254.169.254", "::1", "fe80::1", "::ffff:127.0.0.1"])
def test_a_name_that_leads_to_a_private_address_is_refused(dns: Dns, address: str) -> None:
    dns(["93.184.215.14", address])
    with pytest.raises(PushFailed, match=r"app\.example leads to a refused address") as failed:
        connect(PushOptions(secrets=[SECRET]), "app.example", 443)
    assert (failed.value.code, failed.value.final) == ("PUSH:ADDRESS_REFUSED", True)


def test_a_name_that_changes_to_a_private_address_is_refused_at_its_next_delivery(
    tmp_path: Path, target: TargetServer, dns: Dns
) -> None:
    with Rowcall(tmp_path / "app.db", push=options(allow_private=["127.0.0.0/8"], allow_http=True)) as jobs:

        @jobs.push(target.url(host="app.example"))
        def send() -> None: ...

        asked = dns(["127.0.0.1"], ["10.0.0.1"])
        first, second = send.enqueue(), send.using(delay=0.001).enqueue()
        jobs.drain(concurrency=1)
        assert asked == ["app.example", "app.example"]  # one lookup for each delivery: what was checked is used
        assert jobs.get(first.id).status == "succeeded"
        assert target.received[0].headers["host"] == f"app.example:{target.port}"
        job = jobs.get(second.id)
        assert (job.status, job.error_code) == ("failed", "PUSH:ADDRESS_REFUSED")


def test_the_next_address_is_tried_where_one_does_not_answer(dns: Dns, target: TargetServer) -> None:
    dns(["127.0.0.2", "127.0.0.1"])  # the server listens on the second one
    connect(options(), "app.example", target.port)


def test_a_name_that_does_not_exist_is_retried() -> None:
    with pytest.raises(PushFailed, match="cannot find the address of no-such-host") as failed:
        connect(options(), "no-such-host.invalid", 443)
    assert (failed.value.code, failed.value.final) == ("PUSH:DNS", False)


def test_certificates_are_checked() -> None:
    context = default_ssl_context()
    assert context is default_ssl_context()
    assert context.check_hostname
    assert context.verify_mode is ssl.CERT_REQUIRED


def test_the_name_of_the_url_is_in_the_handshake_and_in_the_certificate(tmp_path: Path, dns: Dns) -> None:
    trusting = options(ssl_context=ssl.create_default_context(cafile=str(CERTIFICATE)))
    defaults = TaskDefaults(retry=Backoff.constant(3600))
    with serving(tls=True) as target, Rowcall(tmp_path / "app.db", push=trusting, defaults=defaults) as jobs:

        @jobs.push(target.url(host="app.example", scheme="https"))
        def send() -> None: ...

        dns(["127.0.0.1"], ["127.0.0.1"])
        sent = send.enqueue()
        jobs.drain()
        other = send.using(target=target.url(host="other.example", scheme="https")).enqueue()
        jobs.drain()
        assert target.names == ["app.example", "other.example"]
        assert [one.headers["host"] for one in target.received] == [f"app.example:{target.port}"]
        assert jobs.get(sent.id).status == "succeeded"
        (failed,) = jobs.attempts(other.id)
        assert failed.error_code == "PUSH:CONNECTION"
        assert "certificate" in str(failed.error_detail)

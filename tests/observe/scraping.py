"""Ask a worker for its metrics, as Prometheus does."""

from __future__ import annotations

import random
import socket

import httpx
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

BELOW_OUTGOING = 20_000, 32_000


def free_ports(count: int = 1) -> int:
    """Return the first of several consecutive ports that are free, and that no outgoing connection gets soon."""
    while True:
        port = random.randrange(*BELOW_OUTGOING)
        if all(_is_free(port + number) for number in range(count)):
            return port


def _is_free(port: int) -> bool:
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except (OSError, OverflowError):
        return False
    return True


def scrape(port: int) -> str:
    answer = httpx.get(f"http://127.0.0.1:{port}/metrics", timeout=20.0)
    assert answer.status_code == 200
    return answer.text


def is_served(port: int) -> bool:
    try:
        return bool(scrape(port))
    except httpx.TransportError:
        return False


def samples(text: str) -> list[Sample]:
    return [sample for family in text_string_to_metric_families(text) for sample in family.samples]


def value(text: str, name: str, **labels: str) -> float | None:
    found = [sample.value for sample in samples(text) if sample.name == name and sample.labels == labels]
    return found[0] if found else None

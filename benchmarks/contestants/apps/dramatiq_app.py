"""Dramatiq on Redis: `dramatiq app`. It has no call for many messages."""

from __future__ import annotations

import os

import dramatiq
from dramatiq.brokers.redis import RedisBroker

from benchmarks.contestants.apps.handlers import handle

dramatiq.set_broker(RedisBroker(url=os.environ["FIELD_URL"]))


@dramatiq.actor
def work(what: str, number: int) -> None:
    handle(what, number)


def prepare() -> None:
    """Redis needs no tables."""


def enqueue(what: str, number: int) -> None:
    work.send(what, number)

"""Which facts lead to a complaint."""

from __future__ import annotations

import pytest

from rowcall.observe.health import Complaint, HostFacts, complaints
from rowcall.store.queries.counts import StoreHealth, Unfinished

NOW_MS = 2_000_000_000_000
MINUTE_MS = 60_000
MB = 1024**2
WELL = StoreHealth()
NOWHERE = HostFacts()


def due(queue: str, *, jobs: int = 1, minutes: float = 0.0, status: str = "pending") -> Unfinished:
    return Unfinished(status, queue, "task", jobs, round(NOW_MS - minutes * MINUTE_MS))


def kinds(found: list[Complaint]) -> list[str]:
    return [complaint.kind for complaint in found]


def of(
    *waiting: Unfinished,
    served: tuple[frozenset[str] | None, ...] = (None,),
    health: StoreHealth = WELL,
    host: HostFacts = NOWHERE,
) -> list[Complaint]:
    return list(complaints(waiting, served, health, host, NOW_MS))


def test_nothing_is_said_of_what_is_well() -> None:
    well = StoreHealth(dead_rows=1_000, oldest_transaction_seconds=10.0, oldest_transaction_pid=1)
    host = HostFacts(wal_bytes=MB, free_bytes=10_000 * MB, clock_ahead_seconds=0.2)
    assert of(due("mail", minutes=9), health=well, host=host) == []
    assert of() == of(served=()) == []


def test_each_queue_that_no_worker_serves_is_named_with_its_jobs() -> None:
    (found,) = of(due("mail", jobs=2), due("mail", jobs=1_000), due("other"), served=(frozenset({"other"}),))
    assert found.kind == "unserved queue mail"
    assert found.what == "no worker serves mail (1,002 waiting)"


def test_without_any_worker_every_queue_is_unserved_and_some_are_named() -> None:
    assert kinds(of(*(due(f"q{number}") for number in range(8)), served=())) == [
        f"unserved queue q{number}" for number in range(5)
    ]


def test_jobs_that_are_not_due_are_not_a_problem() -> None:
    future = Unfinished("scheduled", "mail", "task", 5, NOW_MS + MINUTE_MS)
    assert of(future, due("mail", status="running"), served=(frozenset({"other"}),)) == []


def test_what_is_overdue_and_not_staged_waits_for_a_worker_too() -> None:
    overdue = Unfinished("scheduled", "mail", "task", 5, NOW_MS - 11 * MINUTE_MS)
    assert kinds(of(overdue, served=())) == ["unserved queue mail", "long wait mail"]


def test_long_waits_are_named_longest_first() -> None:
    found = of(due("mail", minutes=11), due("media", minutes=60), due("quick", minutes=1))
    assert kinds(found) == ["long wait media", "long wait mail"]
    assert found[0].what == "jobs of media have been due for 1 h"


@pytest.mark.parametrize(
    ("health", "kind"),
    [
        (StoreHealth(dead_rows=200_000), "dead rows"),
        (StoreHealth(oldest_transaction_seconds=301.0, oldest_transaction_pid=77), "horizon"),
    ],
)
def test_what_the_database_says_of_itself(health: StoreHealth, kind: str) -> None:
    assert kinds(of(health=health)) == [kind]


@pytest.mark.parametrize(
    ("host", "kind"),
    [
        (HostFacts(wal_bytes=200 * MB), "wal"),
        (HostFacts(free_bytes=100 * MB), "disk"),
        (HostFacts(clock_ahead_seconds=3.0), "clock"),
        (HostFacts(clock_ahead_seconds=-3.0), "clock"),
    ],
)
def test_what_is_wrong_with_the_host(host: HostFacts, kind: str) -> None:
    assert kinds(of(host=host)) == [kind]

from __future__ import annotations

from rowcall.store.enqueue.keys import keyed
from rowcall.store.new_job import NewJob, RelatedJob, Unique

FIRST, RAISING = Unique(), Unique(on_duplicate="raise")


def related(task: str, key: str | None, unique: Unique | None = FIRST) -> RelatedJob:
    return RelatedJob(job=NewJob(type=task, queue="default", key=key, unique=unique), payload="{}")


def test_positions_are_grouped_by_task_rule_and_key() -> None:
    call = [
        related("send", "a"),
        related("send", None, None),
        related("charge", "a"),
        related("send", "a"),
        related("send", "b"),
        related("send", "a", RAISING),
    ]
    assert keyed(call) == {
        ("send", FIRST): {"a": [0, 3], "b": [4]},
        ("charge", FIRST): {"a": [2]},
        ("send", RAISING): {"a": [5]},
    }

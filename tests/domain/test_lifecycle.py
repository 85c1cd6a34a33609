from __future__ import annotations

import pytest

from rowcall.domain.job import FINISHED, Status
from rowcall.domain.lifecycle import TABLE, Move, sources, target

# what the documentation promises, written down a second time
PROMISED: dict[str, dict[str, str | None]] = {
    "blocked": {
        "reschedule": "blocked",
        "unblock": "pending",
        "defer": "scheduled",
        "break": "failed",
        "complete": "succeeded",
        "cancel": "cancelled",
        "expire": "cancelled",
        "delete": None,
    },
    "scheduled": {
        "stage": "pending",
        "reschedule": "scheduled",
        "complete": "succeeded",
        "cancel": "cancelled",
        "expire": "cancelled",
        "overrun": "failed",
        "delete": None,
    },
    "pending": {
        "claim": "running",
        "reschedule": "scheduled",
        "complete": "succeeded",
        "refuse": "failed",
        "cancel": "cancelled",
        "expire": "cancelled",
        "overrun": "failed",
        "delete": None,
    },
    "running": {
        "complete": "succeeded",
        "succeed": "succeeded",
        "retry": "scheduled",
        "snooze": "scheduled",
        "release": "pending",
        "recover": "pending",
        "fail": "failed",
        "lose": "failed",
        "cancel": "cancelled",
    },
    "succeeded": {"rerun": "pending", "delete": None},
    "failed": {"rerun": "pending", "reblock": "blocked", "delete": None},
    "cancelled": {"rerun": "pending", "reblock": "blocked", "delete": None},
}
BEGINNINGS = {"enqueue": "pending", "postpone": "scheduled", "block": "blocked"}


def test_the_table_allows_just_what_is_promised() -> None:
    table: dict[str, dict[str, str | None]] = {status: {} for status in Status}
    for rule in TABLE:
        if rule.source is not None:
            table[rule.source][rule.move] = rule.target
    assert table == PROMISED


def test_a_job_begins_in_one_of_three_ways() -> None:
    assert {rule.move: rule.target for rule in TABLE if rule.source is None} == BEGINNINGS


def test_no_rule_is_there_twice_and_every_move_is_used() -> None:
    pairs = [(rule.source, rule.move) for rule in TABLE]
    assert len(pairs) == len(set(pairs))
    assert {rule.move for rule in TABLE} == set(Move)


@pytest.mark.parametrize("source", Status)
def test_a_move_leads_where_the_table_says_or_nowhere(source: Status) -> None:
    for move in Move:
        promised = PROMISED[source].get(move)
        if promised is None:
            with pytest.raises(KeyError):
                target(source, move)
        else:
            assert target(source, move) == promised
            assert source in sources(move)


def test_only_a_person_moves_a_finished_job() -> None:
    assert {move for status in FINISHED for move in PROMISED[status]} == {"rerun", "reblock", "delete"}


def test_no_running_job_is_deleted() -> None:
    assert Status.RUNNING not in sources(Move.DELETE)

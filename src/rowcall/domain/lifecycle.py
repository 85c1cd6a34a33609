"""The state machine: the table of (state, move) → state, which SQL, plans and `decide` look up."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from rowcall.domain.job import Status


class Move(StrEnum):
    ENQUEUE = "enqueue"
    POSTPONE = "postpone"
    BLOCK = "block"
    UNBLOCK = "unblock"
    DEFER = "defer"
    REBLOCK = "reblock"
    BREAK = "break"
    COMPLETE = "complete"
    STAGE = "stage"
    CLAIM = "claim"
    SUCCEED = "succeed"
    RETRY = "retry"
    SNOOZE = "snooze"
    RELEASE = "release"
    RECOVER = "recover"
    FAIL = "fail"
    LOSE = "lose"
    REFUSE = "refuse"
    CANCEL = "cancel"
    EXPIRE = "expire"
    OVERRUN = "overrun"
    RESCHEDULE = "reschedule"
    RERUN = "rerun"
    DELETE = "delete"


class Rule(NamedTuple):
    source: Status | None
    move: Move
    target: Status | None


S, M = Status, Move
_MOVES: tuple[tuple[tuple[Status | None, ...], Move, Status | None], ...] = (
    ((None,), M.ENQUEUE, S.PENDING),
    ((None,), M.POSTPONE, S.SCHEDULED),
    ((None,), M.BLOCK, S.BLOCKED),
    ((S.BLOCKED,), M.UNBLOCK, S.PENDING),
    ((S.BLOCKED,), M.DEFER, S.SCHEDULED),
    ((S.BLOCKED,), M.BREAK, S.FAILED),
    ((S.BLOCKED, S.SCHEDULED, S.PENDING, S.RUNNING), M.COMPLETE, S.SUCCEEDED),
    ((S.SCHEDULED,), M.STAGE, S.PENDING),
    ((S.PENDING,), M.CLAIM, S.RUNNING),
    ((S.RUNNING,), M.SUCCEED, S.SUCCEEDED),
    ((S.RUNNING,), M.RETRY, S.SCHEDULED),
    ((S.RUNNING,), M.SNOOZE, S.SCHEDULED),
    ((S.RUNNING,), M.RELEASE, S.PENDING),
    ((S.RUNNING,), M.RECOVER, S.PENDING),
    ((S.RUNNING,), M.FAIL, S.FAILED),
    ((S.RUNNING,), M.LOSE, S.FAILED),
    ((S.PENDING,), M.REFUSE, S.FAILED),
    ((S.RUNNING, S.BLOCKED, S.SCHEDULED, S.PENDING), M.CANCEL, S.CANCELLED),
    ((S.BLOCKED, S.SCHEDULED, S.PENDING), M.EXPIRE, S.CANCELLED),
    ((S.SCHEDULED, S.PENDING), M.OVERRUN, S.FAILED),
    ((S.BLOCKED,), M.RESCHEDULE, S.BLOCKED),
    ((S.SCHEDULED, S.PENDING), M.RESCHEDULE, S.SCHEDULED),
    ((S.SUCCEEDED, S.FAILED, S.CANCELLED), M.RERUN, S.PENDING),
    ((S.FAILED, S.CANCELLED), M.REBLOCK, S.BLOCKED),
    ((S.BLOCKED, S.SCHEDULED, S.PENDING, S.SUCCEEDED, S.FAILED, S.CANCELLED), M.DELETE, None),
)
TABLE = tuple(Rule(source, move, target) for sources, move, target in _MOVES for source in sources)
_targets = {(rule.source, rule.move): rule.target for rule in TABLE}


def sources(move: Move) -> list[Status]:
    """Return the states from which a move is allowed."""
    return [rule.source for rule in TABLE if rule.move is move and rule.source is not None]


def target(source: Status, move: Move) -> Status:
    """Return the state after a move, or raise `KeyError` if the table does not allow it."""
    status = _targets[source, move]
    if status is None:
        raise KeyError((source, move))
    return status

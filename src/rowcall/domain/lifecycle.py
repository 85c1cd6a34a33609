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
    RESCHEDULE = "reschedule"
    RERUN = "rerun"
    DELETE = "delete"


class Rule(NamedTuple):
    source: Status | None
    move: Move
    target: Status | None


S, M = Status, Move
TABLE: tuple[Rule, ...] = (
    Rule(None, M.ENQUEUE, S.PENDING),
    Rule(None, M.POSTPONE, S.SCHEDULED),
    Rule(None, M.BLOCK, S.BLOCKED),
    Rule(S.BLOCKED, M.UNBLOCK, S.PENDING),
    Rule(S.BLOCKED, M.DEFER, S.SCHEDULED),
    Rule(S.BLOCKED, M.BREAK, S.FAILED),
    Rule(S.BLOCKED, M.COMPLETE, S.SUCCEEDED),
    Rule(S.SCHEDULED, M.COMPLETE, S.SUCCEEDED),
    Rule(S.PENDING, M.COMPLETE, S.SUCCEEDED),
    Rule(S.RUNNING, M.COMPLETE, S.SUCCEEDED),
    Rule(S.SCHEDULED, M.STAGE, S.PENDING),
    Rule(S.PENDING, M.CLAIM, S.RUNNING),
    Rule(S.RUNNING, M.SUCCEED, S.SUCCEEDED),
    Rule(S.RUNNING, M.RETRY, S.SCHEDULED),
    Rule(S.RUNNING, M.SNOOZE, S.SCHEDULED),
    Rule(S.RUNNING, M.RELEASE, S.PENDING),
    Rule(S.RUNNING, M.RECOVER, S.PENDING),
    Rule(S.RUNNING, M.FAIL, S.FAILED),
    Rule(S.RUNNING, M.LOSE, S.FAILED),
    Rule(S.PENDING, M.REFUSE, S.FAILED),
    Rule(S.RUNNING, M.CANCEL, S.CANCELLED),
    Rule(S.BLOCKED, M.CANCEL, S.CANCELLED),
    Rule(S.SCHEDULED, M.CANCEL, S.CANCELLED),
    Rule(S.PENDING, M.CANCEL, S.CANCELLED),
    Rule(S.BLOCKED, M.EXPIRE, S.CANCELLED),
    Rule(S.SCHEDULED, M.EXPIRE, S.CANCELLED),
    Rule(S.PENDING, M.EXPIRE, S.CANCELLED),
    Rule(S.BLOCKED, M.RESCHEDULE, S.BLOCKED),
    Rule(S.SCHEDULED, M.RESCHEDULE, S.SCHEDULED),
    Rule(S.PENDING, M.RESCHEDULE, S.SCHEDULED),
    Rule(S.SUCCEEDED, M.RERUN, S.PENDING),
    Rule(S.FAILED, M.RERUN, S.PENDING),
    Rule(S.CANCELLED, M.RERUN, S.PENDING),
    Rule(S.FAILED, M.REBLOCK, S.BLOCKED),
    Rule(S.CANCELLED, M.REBLOCK, S.BLOCKED),
    Rule(S.BLOCKED, M.DELETE, None),
    Rule(S.SCHEDULED, M.DELETE, None),
    Rule(S.PENDING, M.DELETE, None),
    Rule(S.SUCCEEDED, M.DELETE, None),
    Rule(S.FAILED, M.DELETE, None),
    Rule(S.CANCELLED, M.DELETE, None),
)
_targets = {(rule.source, rule.move): rule.target for rule in TABLE}


def sources(move: Move) -> list[Status]:
    """The states from which a move is allowed."""
    return [rule.source for rule in TABLE if rule.move is move and rule.source is not None]


def target(source: Status, move: Move) -> Status:
    """Return the state after a move, or raise `KeyError` if the table does not allow it."""
    found = _targets[source, move]
    if found is None:
        raise KeyError((source, move))
    return found

"""How far a move is: a setting on both sides.

A mover that writes to the target first replaces the state it knows: if another one has taken the move over, it finds
another state, and writes nothing.
"""

from __future__ import annotations

import msgspec

from rowcall.domain.errors import StoreUnavailable
from rowcall.store.dialect import Dialect
from rowcall.store.queries.counts import ADD_SETTING, DROP_SETTING, SETTING
from rowcall.store.statement import Plan, as_json

AWAY, HERE = "move_away", "move_here"
"""The settings with the state, of the source and of the target."""
WATCHED, SEALING, SEALED = "watched", "sealing", "sealed"
FILLING, OPENING, OPEN = "filling", "opening", "open"


def _taken_over() -> StoreUnavailable:
    return StoreUnavailable("another process has continued this move", "Wait for that one, or run the command again")


class MoveState(msgspec.Struct, frozen=True, omit_defaults=True):
    """How far a move is: the source is WATCHED, SEALING, then SEALED; the target is FILLING, OPENING, then OPEN."""

    id: str
    holder: str
    """The process that moves: another one that continues takes over, and the first one notices."""
    phase: str
    copied: int = 0
    """The jobs up to this id are copied; what has changed since is noted."""
    upto: int = 0
    """The highest id when it began."""


def state_of(dialect: Dialect, side: str) -> Plan[MoveState | None]:
    values = yield from dialect.ask(SETTING, side)
    return msgspec.json.decode(values[0], type=MoveState) if values else None


def change_state(dialect: Dialect, side: str, before: MoveState | None, after: MoveState | None) -> Plan[None]:
    """Replace the state, which no other transaction can do until this one ends. Refuse if it is not the known one.

    By one statement: where each of a plan commits, others would see that there is no move.
    """
    yield from dialect.shared("update <setting> set value = value where name = <text:1>", side)
    if (yield from state_of(dialect, side)) != before:
        raise _taken_over()
    if before is None and after is not None:
        yield from dialect.ask(ADD_SETTING, side, as_json(after))
    elif after is not None:
        change = "update <setting> set value = <text:2> where name = <text:1> and value = <text:3>"
        yield from dialect.shared(change, side, as_json(after), as_json(before))
    elif before is not None:
        yield from dialect.ask(DROP_SETTING, side)
    if after is not None and (yield from state_of(dialect, side)) != after:
        raise _taken_over()

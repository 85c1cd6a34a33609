"""Alerts: findings that are followed, and reports of them that are to be sent.

The contract
------------
* **One at a time.** `LEAD` returns a row to the one process that leads, and locks it until the end of the transaction.
  All other statements here, except `FINISH_ALERT` and `DELAY_ALERT`, come after it.
* **A claim of an alert** lasts until its `due_at`. `attempts` differs from one claim to the next.
"""

from __future__ import annotations

from typing import NamedTuple, cast

import msgspec

from rowcall.domain.alerts import Followed
from rowcall.domain.attention import Finding
from rowcall.store.statement import Change, Int, Json, Ms, Now, Query, Row, Text, text_from_row

LEADER = "leader of alerts"
"""The note that says which process leads."""
_finding = msgspec.json.Decoder(Finding)


class ClaimedAlert(NamedTuple):
    """An alert to send, and by which way. `body` is the `Alert` as JSON."""

    id: int
    attempts: int
    at_ms: int
    way: str
    body: str


def followed_from_row(row: Row) -> Followed:
    name, since_ms, seen_ms, reported_ms, is_reported, cause, size, body = cast(
        "tuple[str, int | None, int, int | None, int, str, int, str]", row
    )
    return Followed(name, since_ms, seen_ms, reported_ms, bool(is_reported), cause, size, _finding.decode(body))


def followed_to_row(one: Followed) -> list[object]:
    finding = msgspec.json.encode(one.finding).decode()
    return [one.name, one.since_ms, one.seen_ms, one.reported_ms, int(one.is_reported), one.cause, one.size, finding]


# Takes the lead if no one has it, and renews it. A time far in the future is from before a clock was set back.
_LEAD = """
    insert into <note> as note (name, until, value) values (<text:2>, <now> + <interval:3>, <text:4>)
    on conflict (name) do update set until = excluded.until, value = excluded.value
    where note.until <= <now> or note.value = excluded.value or note.until > excluded.until + <interval:3>
    returning name"""
LEAD = Query("lead", (Now, Text, Ms, Text), text_from_row, text=_LEAD)
# which process leads
_LEADER_NOW = """
    select value from <note> where name = <text:2> and until > <now> and until <= <now> + <interval:3>"""
LEADER_NOW = Query("leader_now", (Now, Text, Ms), text_from_row, text=_LEADER_NOW)
LEAVE_LEAD = Change("leave_lead", (Text, Text), text="delete from <note> where name = <text:1> and value = <text:2>")
_FOLLOWED = """
    select name, <ms:since>, <ms:seen_at>, <ms:reported_at>, is_reported, cause, size, body
    from <finding> order by name"""
FOLLOWED = Query("followed", (), followed_from_row, text=_FOLLOWED)
_PUT_FOLLOWED = """
    insert into <finding> (name, since, seen_at, reported_at, is_reported, cause, size, body)
    select <fields:text time time time int text bigint text> from <rows:1> where true
    on conflict (name) do update
      set since = excluded.since, seen_at = excluded.seen_at, reported_at = excluded.reported_at,
          is_reported = excluded.is_reported, cause = excluded.cause, size = excluded.size, body = excluded.body"""
PUT_FOLLOWED = Query("put_followed", (Json,), text=_PUT_FOLLOWED)
DROP_FOLLOWED = Query("drop_followed", (Json,), text="delete from <finding> where name <in_texts:1>")
_ADD_ALERTS = """
    insert into <alert> (at, due_at, way, finding, body)
    select <fields:time time text text text> from <rows:1> where true"""
ADD_ALERTS = Query("add_alerts", (Json,), text=_ADD_ALERTS)
# The first alert that is due, for a time; later ones of the same finding wait for it. A time far in the future is from
# before a clock was set back.
_CLAIM_ALERT = """
    update <alert> set due_at = <now> + <interval:2>, attempts = attempts + 1
    where id = (
      select id from <alert> as first
      where (due_at <= <now> or due_at > <now> + <interval:3>)
        and not exists (
          select 1 from <alert> as earlier
          where earlier.finding = first.finding and earlier.way = first.way and earlier.id < first.id)
      order by id limit 1)
    returning id, attempts, <ms:at>, way, body"""
CLAIM_ALERT = Query("claim_alert", (Now, Ms, Ms), lambda row: ClaimedAlert(*row), text=_CLAIM_ALERT)  # type: ignore[arg-type]
_FINISH_ALERT = "delete from <alert> where id = <bigint:1> and attempts = <int:2>"
FINISH_ALERT = Change("finish_alert", (Int, Int), text=_FINISH_ALERT)
_DELAY_ALERT = """
    update <alert> set due_at = <now> + <interval:4> where id = <bigint:2> and attempts = <int:3>"""
DELAY_ALERT = Change("delay_alert", (Now, Int, Int, Ms), text=_DELAY_ALERT)

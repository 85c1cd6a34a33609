"""Limits: which jobs run under which key, which are held, and when the last ones started.

The contract
------------
* **Slots.** A job that runs under a limit has a slot for each of its keys: a row. A slot counts while its job runs
  under the same lease. The slot of a worker also counts until the worker frees it after the handler has ended, or until
  the worker is gone: a handler that still runs after its attempt was settled still counts. So no crash can leak a slot.
* **Keys.** A transaction that hands out slots or starts of a key locks the key until its commit, and counts after that.
* **Held.** A job whose key is full is held under that key and is not ready. The transaction that frees a slot makes as
  many jobs ready again. A claimer holds jobs only while it keeps the slots of the key from being freed
  (`STEADY_SLOTS`), so the transaction that frees one comes later and sees them.
* **Starts.** Under a rate limit each start is a row, numbered within its key in the order of the times.
* **Openings.** The time at which the held jobs of a key are checked again, for keys that no freed slot will check.
"""

from __future__ import annotations

from typing import NamedTuple, cast

import msgspec

from rowcall.base.times import time_of
from rowcall.domain.limits import HELD_PREFIX, LimitChange, Numbers
from rowcall.store.statement import (
    Change,
    Ids,
    Int,
    Json,
    Ms,
    Now,
    Query,
    Row,
    Text,
    always_notify,
    json_from_row,
    row_as,
    text_from_row,
)


class Quota(NamedTuple):
    """The numbers of a limit: as workers declare them, and as people have set them, if they have."""

    name: str
    declared: Numbers
    chosen: Numbers
    changed_at_ms: int | None
    changed_by: str | None

    @property
    def numbers(self) -> Numbers:
        """The numbers that count."""
        return self.declared if self.chosen == Numbers() else self.chosen


class UsedSlots(NamedTuple):
    key: str
    jobs: int


class KeyState(NamedTuple):
    """The published numbers of a key's limit, how many jobs run under the key, until when it is held, and its breaker:
    until when that is open, and how many jobs that were claimed after that run now.
    """

    published: Numbers | None
    used: int
    held_until_ms: int | None = None
    breaker: tuple[int, int] | None = None


class OpenBreaker(NamedTuple):
    key: str
    opened_at_ms: int
    until_ms: int
    failed: int
    outcomes: int


class Outcomes(NamedTuple):
    """How many of the last attempts of a key failed, and of how many."""

    failed: int
    outcomes: int


class Hold(NamedTuple):
    """A key of which no job starts until then; the job that asked for it at that time, and why."""

    key: str
    held_at_ms: int
    until_ms: int
    job_id: int
    reason: str | None


class Starts(NamedTuple):
    """The last start of a key, and the starts that must be over before the next ones: times by number."""

    last: int
    last_at_ms: int
    before: dict[int, int]


class UnitStarts(NamedTuple):
    """The starts of a key whose rate counts units: the number of the last one; when its held jobs are checked; the
    place of the first of them; and the times and units of all starts.
    """

    last: int
    opens_at_ms: int | None
    first_held: tuple[int, int, int] | None
    units: list[tuple[int, int]]


class Held(NamedTuple):
    """A value of the column `held`, and the limits in the row of the first job that has it."""

    by: str
    limits: str | None

    @property
    def key(self) -> str:
        return self.by.removeprefix(HELD_PREFIX)


_states = msgspec.json.Decoder(list[tuple[str, KeyState]])
_starts = msgspec.json.Decoder(list[tuple[str, int, int | None, list[tuple[int, int]]]])
_unit_starts = msgspec.json.Decoder(list[tuple[str, UnitStarts]])
_held = msgspec.json.Decoder(list[tuple[str, str | None]])
_counts = msgspec.json.Decoder(list[tuple[str, int]])


def states_from_row(row: Row) -> tuple[int, dict[str, KeyState]]:
    now_ms, states = cast("tuple[int, str]", row)
    return now_ms, dict(_states.decode(states))


def starts_from_row(row: Row) -> dict[str, Starts]:
    found = _starts.decode(cast("str", row[0]))
    return {key: Starts(last, last_at or 0, dict(before)) for key, last, last_at, before in found}


def unit_starts_from_row(row: Row) -> dict[str, UnitStarts]:
    return dict(_unit_starts.decode(cast("str", row[0])))


def held_from_row(row: Row) -> list[Held]:
    return [Held(by, limits) for by, limits in _held.decode(cast("str", row[0]))]


def quota_from_row(row: Row) -> Quota:
    name, *numbers, at_ms, by = cast("tuple[str, int | None, int | None, int | None, int | None, str | None]", row)
    declared, changed = (msgspec.convert(three, Numbers) for three in (numbers[:3], numbers[3:]))
    return Quota(name, declared, changed, at_ms, by)


def counts_by_key(row: Row) -> dict[str, int]:
    return dict(_counts.decode(cast("str", row[0])))


def change_from_row(row: Row) -> LimitChange:
    at_ms, event, subject, actor, detail = cast("tuple[int, str, str, str | None, str | None]", row)
    return LimitChange(at=time_of(at_ms), event=event, limit=subject, actor=actor, detail=detail)


def attempt_from_row(row: Row) -> tuple[int, int]:
    return cast("tuple[int, int]", row)


def any_changed(rows: list[Row]) -> bool:
    return bool(rows and rows[0][0])  # MariaDB and MySQL return no rows


# whether a slot counts; asked of each row by its id: joined, PostgreSQL might read all jobs instead
COUNTS = """(
      coalesce(
        (select claim.lease = slot.lease from <claim> as claim where claim.job_id = slot.job_id), false)
      or exists (select 1 from <worker> as worker where worker.name = slot.worker))"""

# the numbers that count, made into an array
NUMBERS = """case
          when set_concurrency is not null or set_rate is not null then {0}(set_concurrency, set_rate, set_per_ms)
          when concurrency is not null or rate is not null then {0}(concurrency, rate, per_ms) end"""

# keys and slots; a key is given with the name of its limit
LOCK_LIMITS = Query("lock_limits", (Json,), json_from_row(list[str]), only=("postgres", "mysql"))
KEY_STATES = Query("key_states", (Now, Json), states_from_row)
STEADY_SLOTS = Query("steady_slots", (Json, Ids), json_from_row(list[str]), only=("postgres", "mysql"))
# keys, ids and leases; the worker is null for jobs that are claimed by hand
_RESERVE_SLOTS = """
    insert into <slot> (limit_key, job_id, lease, worker)
    select <fields:text bigint bigint>, <text:2> from <rows:1> where true
    on conflict (limit_key, job_id, lease) do update set worker = excluded.worker"""
RESERVE_SLOTS = Query("reserve_slots", (Json, Text), text=_RESERVE_SLOTS)
_SLOTS_OF_WORKER = "select job_id, lease from <slot> where worker = <text:1>"
SLOTS_OF_WORKER = Query("slots_of_worker", (Text,), attempt_from_row, text=_SLOTS_OF_WORKER)
_STALE_KEYS = f"select distinct limit_key from <slot> as slot where not {COUNTS} limit <int:1>"
STALE_KEYS = Query("stale_keys", (Int,), text_from_row, text=_STALE_KEYS)
_DROP_STALE = f"delete from <slot> as slot where limit_key <in_texts:1> and not {COUNTS}"
DROP_STALE = Change("drop_stale_slots", (Json,), text=_DROP_STALE)
# `free_slots` of the dialect
SLOTS_OF = Query("slots_of", (Text,), json_from_row(list[str]), only=("sqlite",))
DELETE_SLOTS = Query("delete_slots", (Text,), only=("sqlite",))
FREE_SLOTS = Query("free_slots", (Json,), json_from_row(list[str]), only=("postgres", "mysql"))

# what holds a job, what has refused it, the limits in its row, its turn, and when its limit is checked again
_HELD_JOB = """
    select held, unfit, limits, coalesce(turn, id),
           (select <ms_or_null:opens_at> from <opening> where limit_key = substr(held, 7))
    from <job> where id = <bigint:1>"""
HELD_JOB = Query(
    "held_job",
    (Int,),
    lambda row: cast("tuple[str | None, str | None, str | None, int, int | None]", row),
    text=_HELD_JOB,
)
# held jobs; HOLD is given what to hold each id under
HOLD = Change("hold", (Json,))
# from a value on, which is included: plain SQL can write an empty one
HELD_KEYS = Query("held_keys", (Text, Int), held_from_row)
FIRST_HELD = Query("first_held", (Json,), held_from_row)
# `unhold` of the dialect
UNHOLD_FIRST = Change("unhold_first", (Json,), only=("sqlite",))
UNHOLD_SOME = Change("unhold_some", (Text, Int), only=("sqlite",))
UNHOLD = Change("unhold", (Json,), only=("postgres", "mysql"), notifies=any_changed)

# starts: a key, its rate, and how many more are asked for
RECENT_STARTS = Query("recent_starts", (Json,), starts_from_row)
# keys, numbers, times, and until when to keep them
_RECORD_STARTS = """
    insert into <start> (limit_key, number, at, until) select <fields:text bigint time time> from <rows:1>"""
RECORD_STARTS = Query("record_starts", (Json,), text=_RECORD_STARTS)
# those of each key up to a number
DROP_STARTS = Query("drop_starts", (Json,))
# Rates that count units. Starts, with the units, job and lease; those of keys; all of keys that are over
RECENT_UNITS = Query("recent_units", (Json,), unit_starts_from_row)
_RECORD_UNITS = """
    insert into <start> (limit_key, number, at, until, units, job_id, lease)
    select <fields:text bigint time time bigint bigint bigint> from <rows:1>"""
RECORD_UNITS = Query("record_units", (Json,), text=_RECORD_UNITS)
_DROP_OVER_UNITS = """
    delete from <start> where (limit_key, number) in (
      select limit_key, number from <start> where limit_key <in_texts:2> and until <= (select <now>)
      <for_update> <skip_locked>)"""
DROP_OVER_UNITS = Query("drop_over_units", (Now, Json), text=_DROP_OVER_UNITS)
# what an attempt has used: key, job, lease, units. What it used in addition is a start with a number below 0
_LOWER_UNITS = """
    update <start> set units = <bigint:4> where limit_key = <text:1> and job_id = <bigint:2> and lease = <bigint:3>"""
LOWER_UNITS = Query("lower_units", (Text, Int, Int, Int), text=_LOWER_UNITS)
_ADD_UNITS = """
    insert into <start> (limit_key, number, at, until, units, job_id, lease)
    select <fields:text bigint time time bigint bigint bigint> from <rows:1> where true
    on conflict (limit_key, number) do update set at = excluded.at, until = excluded.until,
      units = coalesce(<start>.units, 0) + excluded.units, lease = excluded.lease"""
ADD_UNITS = Query("add_units", (Json,), text=_ADD_UNITS)
# the clock was set back: starts of the future become starts of now
_REWIND_STARTS = "update <start> set at = <time:2> where limit_key = <text:1> and at > <time:2>"
REWIND_STARTS = Query("rewind_starts", (Text, Ms), text=_REWIND_STARTS)
PRUNE_STARTS = Change("prune_starts", (Now, Int))

_PUT_OPENINGS = """
    insert into <opening> (limit_key, opens_at) select <fields:text time> from <rows:1> where true
    on conflict (limit_key) do update set opens_at = excluded.opens_at"""
PUT_OPENINGS = Query("put_openings", (Json,), text=_PUT_OPENINGS)
DROP_OPENINGS = Query("drop_openings", (Json,), text="delete from <opening> where limit_key <in_texts:1>")
DROP_UNSPELLED_OPENINGS = Query("drop_unspelled_openings", only=("sqlite",))
_DUE_OPENINGS = """
    select limit_key from <opening> <indexed:opening_at> where opens_at <= (select <now>) order by opens_at
    limit <int:2>"""
DUE_OPENINGS = Query("due_openings", (Now, Int), text_from_row, text=_DUE_OPENINGS)

_QUOTAS = """
    select name, concurrency, rate, per_ms, set_concurrency, set_rate, set_per_ms, <ms_or_null:changed_at>, changed_by
    from <quota>"""
QUOTAS = Query("quotas", (), quota_from_row, text=_QUOTAS)
_PUT_QUOTAS = """
    insert into <quota> (name, concurrency, rate, per_ms) select <fields:text int int bigint> from <rows:1> where true
    on conflict (name) do update set concurrency = excluded.concurrency, rate = excluded.rate,
      per_ms = excluded.per_ms"""
PUT_QUOTAS = Query("put_quotas", (Json,), text=_PUT_QUOTAS)
# the numbers that people set, or none of them; who; and whether that makes held jobs ready
_SET_QUOTA = """
    insert into <quota> (name, set_concurrency, set_rate, set_per_ms, changed_at, changed_by)
    values (<text:2>, <int:3>, <int:4>, <bigint:5>, <now>, <text:6>)
    on conflict (name) do update set set_concurrency = excluded.set_concurrency, set_rate = excluded.set_rate,
      set_per_ms = excluded.set_per_ms, changed_at = excluded.changed_at, changed_by = excluded.changed_by
    returning name"""
SET_QUOTA = Query("set_quota", (Now, Text, Int, Int, Int, Text), text=_SET_QUOTA, notifies=always_notify)

# for readers: the slots that count, by key; and the starts under a rate that count: keys, and how long starts count
_USED_SLOTS = f"""
    select limit_key, count(*) from <slot> as slot where {COUNTS} group by limit_key order by limit_key limit <int:1>"""
USED_SLOTS = Query("used_slots", (Int,), row_as(UsedSlots), text=_USED_SLOTS)
COUNTED_STARTS = Query("counted_starts", (Now, Json), counts_by_key)

# keys that are held: written by the ends of attempts, which never shorten a hold
_PUT_HOLDS = """
    insert into <limit_hold> (limit_key, held_at, until, job_id, reason)
    select <fields:text time time bigint text> from <rows:1> where true
    on conflict (limit_key) do update set held_at = excluded.held_at, until = excluded.until,
      job_id = excluded.job_id, reason = excluded.reason
    where excluded.until > <limit_hold>.until"""
PUT_HOLDS = Query("put_holds", (Json,), text=_PUT_HOLDS)
_HOLD_COLUMNS = "select limit_key, <ms:held_at>, <ms:until>, job_id, reason from <limit_hold>"
_HOLDS_OF = f"{_HOLD_COLUMNS} where limit_key <in_texts:2> and until > (select <now>)"
HOLDS_OF = Query("holds_of", (Now, Json), row_as(Hold), text=_HOLDS_OF)
HOLDS = Query("holds", (Now, Int), row_as(Hold), text=f"{_HOLD_COLUMNS} where until > (select <now>) limit <int:2>")
_END_HOLDS = "delete from <limit_hold> where limit_key <in_texts:1>"
END_HOLDS = Change("end_holds", (Json,), text=_END_HOLDS)
PRUNE_HOLDS = Query("prune_holds", (Now,), text="delete from <limit_hold> where until <= (select <now>)")
# Breakers: the row of one is there while it is open. A job that is claimed after `open_until` tries for all.
_PUT_BREAKERS = """
    insert into <breaker> (limit_key, opened_at, open_until, failed, outcomes)
    select <fields:text time time int int> from <rows:1> where true
    on conflict (limit_key) do update set opened_at = excluded.opened_at, open_until = excluded.open_until,
      failed = excluded.failed, outcomes = excluded.outcomes"""
PUT_BREAKERS = Query("put_breakers", (Json,), text=_PUT_BREAKERS)
_BREAKER_COLUMNS = "select limit_key, <ms:opened_at>, <ms:open_until>, failed, outcomes from <breaker>"
_BREAKERS_OF = f"{_BREAKER_COLUMNS} where limit_key <in_texts:1>"
BREAKERS_OF = Query("breakers_of", (Json,), row_as(OpenBreaker), text=_BREAKERS_OF)
BREAKERS = Query("breakers", (Int,), row_as(OpenBreaker), text=f"{_BREAKER_COLUMNS} limit <int:1>")
CLOSE_BREAKERS = Change("close_breakers", (Json,), text="delete from <breaker> where limit_key <in_texts:1>")
# keys, times, and whether they failed; then those of one key: the last ones, all but the last ones, all
_PUT_OUTCOMES = "insert into <outcome> (limit_key, at, failed) select <fields:text time int> from <rows:1>"
PUT_OUTCOMES = Query("put_outcomes", (Json,), text=_PUT_OUTCOMES)
_LAST_OUTCOMES = """
    select coalesce(sum(failed), 0), count(*)
    from (select failed from <outcome> where limit_key = <text:1> order by id desc limit <int:2>) as given"""
LAST_OUTCOMES = Query("last_outcomes", (Text, Int), lambda row: Outcomes(*map(int, row)), text=_LAST_OUTCOMES)  # type: ignore[arg-type]
_TRIM_OUTCOMES = """
    delete from <outcome> where limit_key = <text:1> and id <= (
      select id from <outcome> where limit_key = <text:1> order by id desc limit 1 offset <int:2>)"""
TRIM_OUTCOMES = Query("trim_outcomes", (Text, Int), text=_TRIM_OUTCOMES)
DROP_OUTCOMES = Query("drop_outcomes", (Json,), text="delete from <outcome> where limit_key <in_texts:1>")
# the first ones are the oldest ones
_PRUNE_OUTCOMES = """
    delete from <outcome> where at <= <time:1> and id in (select id from <outcome> order by id limit <int:2>)"""
PRUNE_OUTCOMES = Change("prune_outcomes", (Ms, Int), text=_PRUNE_OUTCOMES)
# of some jobs: id, lease and key
_SLOTS_OF_JOBS = "select job_id, lease, limit_key from <slot> where job_id <in_ids:1>"
SLOTS_OF_JOBS = Query("slots_of_jobs", (Ids,), lambda row: cast("tuple[int, int, str]", row), text=_SLOTS_OF_JOBS)

# what people and jobs did to limits
_AUDIT = """
    insert into <audit> (at, event, subject, actor, detail)
    values (<now>, <text:2>, <text:3>, <text:4>, <text:5>)"""
AUDIT = Query("audit", (Now, Text, Text, Text, Text), text=_AUDIT)
_TRIM_AUDIT = "delete from <audit> where id <= (select max(id) from <audit>) - <int:1>"
TRIM_AUDIT = Query("trim_audit", (Int,), text=_TRIM_AUDIT)
_AUDITED = "select <ms:at>, event, subject, actor, detail from <audit> order by id desc limit <int:1>"
AUDITED = Query("audited", (Int,), change_from_row, text=_AUDITED)

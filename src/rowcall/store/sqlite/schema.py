"""The tables of SQLite: types and checks of their columns, and triggers. See `rowcall.store.schema`."""

from __future__ import annotations

from collections.abc import Mapping

from rowcall.domain.fairness import LONGEST_KEY
from rowcall.domain.job import Status
from rowcall.store.additions import later_migrations
from rowcall.store.migration import Code, Locking, Migration, TableChange
from rowcall.store.queries.counts import MOST_ATTEMPTS_COUNTED
from rowcall.store.schema import (
    FAIR_TURN,
    FIRST_TABLES,
    INDEXES,
    IS_NO_END,
    NAME_QUEUE,
    READY_CHANGES,
    READY_COLUMNS,
    READY_KEY,
    READY_ROW,
    TABLES,
    TURN_IS_OVER,
    VIEWS,
    create_table,
)
from rowcall.store.sqlite.words import LARGEST, LARGEST_SUMMED

LONGEST_STEP = 1_000_000  # more than one statement inserts

TABLE_EXISTS = "select 1 from sqlite_master where type = 'table' and name = '<migration>'"
# the version, the oldest code that later migrations allow, and the tables that are missing
VERSION_FOUND = f"""
    select coalesce(max(version), 0), coalesce(max(coalesce(oldest, version)) filter (where version > $1), 0),
           (select group_concat(column1) from (values {", ".join(f"('<{table}>')" for table in TABLES)})
            where column1 not in (select name from sqlite_master where type = 'table'))
    from <migration>"""


def _is_one_of(column: str, statuses: tuple[Status, ...]) -> str:
    """Compare with each value: for a longer list, SQLite would build a table for each row that it checks."""
    return " or ".join(f"{column} = <{status}>" for status in statuses)


_S = Status
_BY_FREQUENCY = (_S.SUCCEEDED, _S.RUNNING, _S.PENDING, _S.SCHEDULED, _S.FAILED, _S.CANCELLED, _S.BLOCKED)

# One odd row must not stop the others: plain SQL is either refused here, or only its job fails. SQLite takes any
# value anywhere, and has STRICT tables only since 3.37. Each kind has a type, the name of its rule, and the rule. The
# rules avoid typeof(), a call that costs every insert: SQLite has already converted the value to the column's type
# where it can, a number is less than any text, and a text is less than any blob.
_TEXT = "{0} < x''"
_INTEGER = "{0} = cast({0} as integer)"
_WHOLE = f"{{0}} between -{2**63 - 1} and {2**63 - 1} and {_INTEGER}"  # the lowest integer may be a float
_SUMMED = f"{{0}} between -{LARGEST_SUMMED} and {LARGEST_SUMMED} and {_INTEGER}"
_COUNT = f"{{0}} between {{lowest}} and {LARGEST} and {_INTEGER}"
_SHORT = f"{_TEXT} and length({{0}}) between 1 and {{longest}} and instr({{0}}, char(0)) = 0"
_KINDS = {
    **dict.fromkeys(("text", "key", "json"), ("text", "is_text", _TEXT)),
    **dict.fromkeys(("int", "number", "flag", "moment"), ("integer", "is_integer", _SUMMED)),
    **dict.fromkeys(("count", "lease"), ("integer", "is_a_whole_number", _COUNT.replace("{lowest}", "0"))),
    "limit": ("integer", "is_a_whole_number", _COUNT.replace("{lowest}", "1")),
    "whole": ("integer", "is_a_whole_number", _WHOLE),
    "bigint": ("integer", "is_integer", _WHOLE),
    "time": ("integer", "is_milliseconds_since_1970", f"{{0}} > 100000000000 and {_INTEGER}"),
    "seconds": ("real", "is_seconds", "{0} between 1e-6 and 1e10"),
    "status": ("text", "is_known", _is_one_of("{0}", _BY_FREQUENCY)),
    "name": ("text", "is_text_without_nul", _SHORT.replace("{longest}", "200")),
    "value": ("text", "is_a_short_text", _SHORT.replace("{longest}", str(LONGEST_KEY))),
    # rows are found by it, and bytes that are not UTF-8 are read as U+FFFD, and never found again
    "spelled": ("text", "is_utf_8", f"{_TEXT} and {{0}} not glob '*[\ufffd]*'"),
    "real": ("real", "", ""),
}
_UNCHECKED = {
    "identity": "integer primary key autoincrement constraint id_is_a_small_positive_number check (id > 0)",
    **dict.fromkeys(("rowid", "job_key"), "integer primary key"),
    "tags": "text",  # triggers check them
}


def _column(name: str, kind: str, constraints: str) -> str:
    if kind in _UNCHECKED:
        return f"{name} {_UNCHECKED[kind]}"
    datatype, rule, check = _KINDS[kind.removesuffix("?")]
    if kind.endswith("?"):
        return f"{name} {datatype} {constraints}"
    fits = check.format(name)
    if not constraints.startswith(("not null", "primary key")):
        fits = f"{name} is null or ({fits})"
    return f"{name} {datatype} {constraints} constraint {name}_{rule} check ({fits})"


MORE_COLUMNS = {
    # the highest id of a job that was deleted before it ended, and of an event of such a job, since it registered
    "waiter": "  deleted_job bigint not null default 0\n  deleted_event bigint not null default 0\n",
}


def _table(name: str, columns: str) -> str:
    options = "" if columns.split()[1] in _UNCHECKED else "without rowid"
    return create_table(name, MORE_COLUMNS.get(name, "") + columns.lstrip(), _column, options)


def _recheck(name: str, columns: str, checks: Mapping[str, str]) -> list[str]:
    """Return what makes a table again: SQLite cannot change a rule.

    The table is not renamed: that would look at each view of the file, also of the app.
    """
    kept = f"<prefix>{name}_kept"
    names = ", ".join(line.split()[0] for line in columns.strip().splitlines() if line.split()[0] != "primary")
    return [
        f"create table {kept} as select {names} from <{name}>",
        f"drop table <{name}>",
        _table(name, columns),
        f"insert into <{name}> ({names}) select {names} from {kept}",
        f"drop table {kept}",
    ]


VERSION_TABLE = create_table("migration", TABLES["migration"], _column).replace("table", "table if not exists", 1)

# Not a CHECK: older versions of SQLite refuse the whole file to connections that do not trust its schema, if one of
# those calls a function of JSON. A trigger is looked at when it fires.
_TAGS_CHECK = """
  select raise(abort, 'CHECK constraint failed: tags_are_a_json_array')
  where new.tags is not null
    and not (typeof(new.tags) = 'text' and json_valid(new.tags) and json_type(new.tags) = 'array');
"""

# a settle finds out whether anything follows: RETURNING would take twice as long for all jobs
FOLLOWED = "{0}on_end is not null or {0}batch_id is not null or {0}parent_id is not null"
_FOLLOWED_INDEX = "create index <prefix>job_followed on <job> (id) where on_end is not null"
_LATER_FOLLOWED_INDEX = (
    "drop index <prefix>job_followed",
    f"create index <prefix>job_followed on <job> (id) where {FOLLOWED.format('')}",
)

_TAGS_UPDATE_TRIGGER = f"""
create trigger <prefix>job_tags_changed before update of tags on <job> when new.tags is not null begin
  {_TAGS_CHECK}
end
"""

_NEW_IS_FINISHED = f"({_is_one_of('new.status', (_S.SUCCEEDED, _S.FAILED, _S.CANCELLED))})"
_OLD_IS_FINISHED = _NEW_IS_FINISHED.replace("new.", "old.")

# never more than the column takes: plain SQL may have written the highest number
SUM_OF_JOBS = f"max(-{LARGEST_SUMMED}, min({LARGEST_SUMMED}, jobs + excluded.jobs))"


def _count(row: str, jobs: int, condition: str) -> str:
    """One job more or fewer in the totals: SQLite has one writer, so no transaction waits for that row."""
    return f"""
  insert into <total> (status, queue, type, error_code, attempt, jobs)
  select {row}.status, {row}.queue, {row}.type, coalesce(cast({row}.error_code as text), ''),
         min({row}.attempt, {MOST_ATTEMPTS_COUNTED}), {jobs}
  where {condition}
  on conflict (status, queue, type, error_code, attempt) do update set jobs = {SUM_OF_JOBS};
"""


_REFUSE_ID = "select raise(abort, 'CHECK constraint failed: id_is_a_small_positive_number')"


def _refuse_leap(table: str) -> str:
    """Refuse an id near the highest that does not follow the last one: it would leave none to come."""
    last = f"coalesce((select seq from sqlite_sequence where name = '<{table}>' collate nocase), 0)"
    return f"{_REFUSE_ID} where new.id > {LARGEST} and new.id - {last} > {LONGEST_STEP};"


def _refuse_update(table: str) -> str:
    return f"""
create trigger <prefix>{table}_id before update of id on <{table}> when new.id > {LARGEST} begin
  {_REFUSE_ID};
end
"""


def _refuse_insert(table: str) -> str:
    return f"""
create trigger <prefix>{table}_inserted after insert on <{table}> when new.id > {LARGEST} begin
  {_refuse_leap(table)}
end
"""


_NEW_IS_READY = "new.status = <pending> and new.held is null"
_OLD_IS_READY = _NEW_IS_READY.replace("new.", "old.")
_OLD_READY = f"{READY_KEY.format('old')} and id = old.id"

# A transaction that inserts many jobs makes them ready by one statement, which takes half of the time: until then a
# setting says after which id. A trigger that does not fire costs next to nothing, but each statement in one that fires
# costs every insert, even if its condition is false: what is rare has a separate trigger.
BULK_AFTER = "bulk_after"
_IS_READY_NOW = f"""{_NEW_IS_READY}
  and not exists (select 1 from <setting> where name = '{BULK_AFTER}' and cast(value as integer) < new.id)"""
_INSERTED_TRIGGER = f"""
create trigger <prefix>job_inserted after insert on <job> when new.fair is null and {_IS_READY_NOW} begin
  insert or replace into <ready> {READY_COLUMNS} values ({READY_ROW.format("new")});
end
"""
_FAIR_INSERTED_TRIGGER = f"""
create trigger <prefix>job_fair_inserted after insert on <job> when new.fair is not null and {_IS_READY_NOW} begin
  update <job> set turn = ({FAIR_TURN.format("")}) where id = new.id;
  insert or replace into <ready> {READY_COLUMNS} select {READY_ROW.format("job")} from <job> as job where id = new.id;
end
"""

# Plain SQL may write history too: what has finished did so at some time, and counts. It may also give an id, and the
# next ones are counted from there; within a statement SQLite shows the last id before it.
_SPECIAL_INSERTED_TRIGGER = f"""
create trigger <prefix>job_special_inserted after insert on <job>
when new.tags is not null or {_NEW_IS_FINISHED} or new.id > {LARGEST} begin
  {_TAGS_CHECK}
  insert or ignore into <job_tag> (tag, job_id, status) select value, new.id, new.status from json_each(new.tags);
  {_refuse_leap("job")}
  update <job> set finished_at = created_at
  where id = new.id and finished_at is null and {_NEW_IS_FINISHED};
  {_count("new", 1, _NEW_IS_FINISHED)}
end
"""

_DELETED_TRIGGER = f"""
create trigger <prefix>job_deleted after delete on <job> when {_OLD_IS_FINISHED} begin
  {_count("old", -1, _OLD_IS_FINISHED)}
end
"""

# A pending job without a ready row is claimed: a change of its priority does not make it ready again. A trigger that
# reads a column behind the 32nd of the old row would make SQLite read all of them, for each job that is settled.
_CHANGE = f"after update of {READY_CHANGES} on <job>"
_READY_TRIGGER = f"""
create trigger <prefix>job_ready_changed {_CHANGE}
when {IS_NO_END} and ({_OLD_IS_READY} or {_NEW_IS_READY}) begin
  -- the next trigger may have changed the turn: SQLite does not say which comes first
  update or replace <ready> set {READY_COLUMNS} = (
    select {READY_ROW.format("job")} from <job> as job where job.id = new.id)
  where {_OLD_READY} and {_OLD_IS_READY} and {_NEW_IS_READY};
  delete from <ready> where {_OLD_READY} and not ({_NEW_IS_READY});
  insert or replace into <ready> {READY_COLUMNS}
  select {READY_ROW.format("job")} from <job> as job
  where job.id = new.id and {_NEW_IS_READY} and not ({_OLD_IS_READY})
    and not exists (select 1 from <claim> where job_id = new.id);
end
"""

_FAIR_TRIGGER = f"""
create trigger <prefix>job_turn_changed {_CHANGE} when {IS_NO_END} and {TURN_IS_OVER} begin
  update <job> set turn = ({FAIR_TURN.format("")}) where id = new.id;
end
"""

_NOT_READY_TRIGGER = f"""
create trigger <prefix>job_not_ready after delete on <job> when {_OLD_IS_READY} begin
  delete from <ready> where {_OLD_READY};
end
"""

# who deletes a job that has not ended takes it out of its batch
_LEFT_BATCH_TRIGGER = f"""
create trigger <prefix>job_left_batch after delete on <job> when old.batch_id is not null and not {_OLD_IS_FINISHED}
begin
  insert into <batch_tally> (batch_id, jobs) values (old.batch_id, -1);
end
"""

# connections that do not keep foreign keys would leave these behind
_BELONGINGS_TRIGGER = """
create trigger <prefix>job_belongings after delete on <job> begin
  delete from <attempt> where job_id = old.id;
  delete from <event> where job_id = old.id;
  delete from <job_tag> where job_id = old.id;
  delete from <edge> where job_id = old.id;
  delete from <slot> where job_id = old.id and worker is null;
  delete from <step> where job_id = old.id;
  delete from <signal> where job_id = old.id;
  delete from <stream> where job_id = old.id;
  delete from <log> where job_id = old.id;
  delete from <claim> where job_id = old.id;
end
"""

# The end of a job is in the table of changes; what else a reader of events has not read yet would go unnoticed.
_UNREAD_TRIGGER = f"""
create trigger <prefix>job_unread before delete on <job> when not {_OLD_IS_FINISHED} begin
  update <waiter> set deleted_job = max(deleted_job, old.id),
    deleted_event = max(deleted_event, coalesce((select max(id) from <event> where job_id = old.id), 0))
  where job_id = 0;
end
"""

# measured with 200,000 jobs
LOCKING = Locking(dict.fromkeys(TableChange, "write"), seconds_read=1.5e-6, seconds_written=4e-6)

MIGRATIONS = (
    Migration(
        1,
        1,
        "the tables of the first release",
        (
            *(_table(name, columns) for name, columns in FIRST_TABLES.items() if name != "migration"),
            *(*INDEXES, _FOLLOWED_INDEX, NAME_QUEUE.format("lower(hex(randomblob(16)))")),
        ),
    ),
    *later_migrations(FIRST_TABLES, _table, _column, _recheck, {2: _LATER_FOLLOWED_INDEX}),
)
NEWEST_VERSION = MIGRATIONS[-1].version


def _code(statement: str) -> Code:
    kind, name = statement.split()[1:3]
    return Code(statement, (f"drop {kind} if exists {name}", statement))


CODE = tuple(
    map(
        _code,
        (
            *(_TAGS_UPDATE_TRIGGER, _INSERTED_TRIGGER, _FAIR_INSERTED_TRIGGER, _SPECIAL_INSERTED_TRIGGER),
            *(_refuse_insert(table) for table in ("event", "change")),
            *(_refuse_update(table) for table in ("job", "event", "change")),
            *(
                _DELETED_TRIGGER,
                _LEFT_BATCH_TRIGGER,
                _BELONGINGS_TRIGGER,
                _NOT_READY_TRIGGER,
                _READY_TRIGGER,
                _FAIR_TRIGGER,
            ),
            *(_UNREAD_TRIGGER, *VIEWS),
        ),
    )
)

"""The tables of MariaDB and MySQL: types of their columns, and triggers. See `rowcall.store.schema`.

A change of a table commits, so a migration is resumed where it was stopped: what is there already is left alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from rowcall.domain.fairness import LONGEST_KEY
from rowcall.domain.job import FINISHED, Status
from rowcall.store.additions import later_migrations
from rowcall.store.migration import Code, Locking, Migration, TableChange
from rowcall.store.mysql.words import (
    COLLATION,
    HIGHEST_ID,
    MOST_COUNT,
    MOST_LEASE,
    MOST_SLOTS,
    MOST_SUMMED,
    NAMES,
    adapted,
)
from rowcall.store.queries.counts import MOST_ATTEMPTS_COUNTED
from rowcall.store.rendering import literals
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
    TURN_IS_OVER,
    VIEWS,
    create_table,
)

TABLE_EXISTS = "select 1 from information_schema.tables where table_schema = database() and table_name = '<migration>'"
# the version, the oldest code that later migrations allow, and the tables that are missing
VERSION_FOUND = f"""
    select coalesce(max(version), 0),
           coalesce(max(case when version > $1 then coalesce(oldest, version) end), 0),
           (select group_concat(name) from json_table(
              '[{", ".join(f'"<{table}>"' for table in NAMES)}]', '$[*]' columns (name varchar(64) path '$')) as needed
            where not exists (select 1 from information_schema.tables where table_schema = database()
                              and table_name = needed.name))
    from <migration>"""
_KEY_LENGTH = 760  # characters: an index takes 3,072 bytes
# columns of texts that an index has, by table and column: how many characters
_LENGTHS = {
    **dict.fromkeys(("status", "state", "on_failure", "kind", "outcome"), 20),
    **dict.fromkeys(("queue", "type", "scope", "error_code", "digest", "token", "signal.name"), 200),
    **dict.fromkeys(("ready.type",), 400),  # a type with the fingerprints of refusals
    **dict.fromkeys(("pause.name", "tag"), 700),
    **dict.fromkeys(("key", "job.worker", "claim.worker", "slot.worker"), 512),
    **dict.fromkeys(("setting.name", "task", "zone", "catch_up"), _KEY_LENGTH),
}
_CHECKS = {
    "name": "char_length({0}) between 1 and 200",
    "status": f"{{0}} in {literals(Status)}",
    "count": f"{{0}} between 0 and {MOST_COUNT}",
    "limit": f"{{0}} between 1 and {MOST_COUNT}",
    "lease": f"{{0}} between 0 and {MOST_LEASE}",
    "number": f"{{0}} between -{MOST_SUMMED} and {MOST_SUMMED}",
    "seconds": "{0} between 1e-6 and 1e10",
    "value": f"octet_length({{0}}) between 1 and {LONGEST_KEY}",
    "json": "json_valid({0})",
    "tags": "json_valid({0}) and json_type({0}) = 'ARRAY'",
}
_IDENTITY = "bigint auto_increment primary key"
_KINDS = {
    **dict.fromkeys(("identity", "rowid"), _IDENTITY),
    "job_key": "bigint primary key",
    **dict.fromkeys(("key", "spelled"), f"varchar({_KEY_LENGTH})"),
    "name": "varchar(200)",
    "status": "varchar(20)",
    "value": f"varchar({LONGEST_KEY})",
    **dict.fromkeys(("text", "json", "tags"), "longtext"),
    **dict.fromkeys(("int", "whole", "count", "limit"), "int"),
    **dict.fromkeys(("lease", "bigint", "number"), "bigint"),
    **dict.fromkeys(("time", "moment"), "datetime(3)"),
    **dict.fromkeys(("real", "seconds"), "double"),
    "flag": "smallint",
    "bytea": "longblob",
}
_DEFAULT = re.compile(r"default (?!\()('[^']*'|<\w+>)")
_REFERENCE = re.compile(r"references (<\w+>) \(id\) on delete cascade")
_CHECK = re.compile(r"constraint (<prefix>\w+) check (\(.*\))$")


def _definition(table: str, name: str, kind: str, constraints: str) -> str:
    kind = kind.removesuffix("?")
    length = _LENGTHS.get(f"{table}.{name}") or _LENGTHS.get(name)
    datatype = f"varchar({length})" if kind in ("text", "key") and length else _KINDS[kind]
    parts = []
    if reference := _REFERENCE.search(constraints):
        constraints = _REFERENCE.sub("", constraints)
        parts.append(f"foreign key (`{name}`) references {reference[1]} (id) on delete cascade")
    if rule := _CHECK.search(constraints):
        constraints = _CHECK.sub("", constraints)
        parts.append(f"constraint {rule[1]} check {rule[2]}")
    constraints = _DEFAULT.sub(r"default (\1)", constraints)
    if kind in _CHECKS:
        constraints = f"{constraints} check ({_CHECKS[kind].format(f'`{name}`')})"
    return ",\n  ".join([f"`{name}` {datatype} {constraints}".rstrip(), *parts])


_OPTIONS = f"engine = InnoDB default character set utf8mb4 collate = {COLLATION}"
_BLOB = """
  touched_at moment not null
  digest key primary key
  data bytea not null
"""
_MUTEX = "\n  slot int primary key\n"
MORE_COLUMNS = {
    "worker": "  served json\n",
    "edge": "  unsure flag not null default 0\n",
}


def _table(name: str, columns: str) -> str:
    made = create_table(
        name, columns + MORE_COLUMNS.get(name, ""), lambda *column: _definition(name, *column), _OPTIONS
    )
    made = re.sub(r"primary key \(([^)]*)\)", lambda key: f"primary key ({_quoted(key[1])})", made)
    return made.replace("create table", "create table if not exists", 1)


def _quoted(columns: str) -> str:
    return ", ".join(f"`{column.strip()}`" for column in columns.split(","))


# A long text is indexed by its beginning.
_PREFIXES = {"held": 190, "ordered": 700, "fair": 400}
# the primary key serves these
_NOT_NEEDED = ("job_chain_head", "ready_turned")
_INDEX = re.compile(r"create (unique )?index <prefix>(\w+) on (<\w+>) \((.*?)\)(?: where (.*))?$", re.DOTALL)


def _index(statement: str) -> Iterator[str]:
    """Yield the index here: whole, as there are no partial ones, with the status first that its part has."""
    if statement.startswith("drop"):
        yield f"{statement} on <job>"
        return
    match = _INDEX.match(statement)
    assert match is not None, statement
    unique, name, table, columns, part = match.groups()
    if name in _NOT_NEEDED:
        return
    columns = re.sub(r"<covering:([^>]*)>", r", \1", columns)
    names = [re.sub(r"coalesce\((\w+), [^)]*\)", r"\1", one).split()[0] for one in re.split(r", (?![^(]*\))", columns)]
    if part and re.search(r"\bstatus = ", part):
        names.insert(0, "status")
    keys = [f"`{one}`({_PREFIXES[one]})" if one in _PREFIXES else f"`{one}`" for one in dict.fromkeys(names)]
    yield f"create {unique or ''}index <prefix>{name} on {table} ({', '.join(keys)})"


def _indexes(statements: tuple[str, ...]) -> list[str]:
    return [index for statement in statements for index in _index(statement)]


def _recheck(name: str, columns: str, checks: Mapping[str, str]) -> list[str]:
    """Return what changes rules: by one statement, which may run twice. The servers call the first part otherwise."""
    drops = [f"drop /*M! constraint */ /*!80016 check */ <prefix>{rule}" for rule in checks]
    adds = [f"add constraint <prefix>{rule} check ({check})" for rule, check in checks.items()]
    return [f"alter table <{name}> {', '.join([*drops, *adds])}"]


VERSION_TABLE = _table("migration", FIRST_TABLES["migration"])


def _sql(template: str) -> str:
    text = adapted(template)
    assert isinstance(text, str)
    return text


_IS_READY = "{0}.status = <pending> and {0}.held is null"
_NEW_IS_READY, _OLD_IS_READY = _IS_READY.format("new"), _IS_READY.format("old")
_NEW_IS_FINISHED, _OLD_IS_FINISHED = (f"{row}.status in {literals(FINISHED)}" for row in ("new", "old"))
_IS_READ = "exists (select 1 from <waiter> where job_id = 0)"


def _count(row: str, jobs: int) -> str:
    return f"""
    insert into <tally> (at, queue, type, status, error_code, attempt, jobs)
    values (<clock>, {row}.queue, {row}.type, {row}.status, coalesce({row}.error_code, ''),
            least({row}.attempt, {MOST_ATTEMPTS_COUNTED}), {jobs});"""


_INSERT_READY = f"""
    insert into <ready> {READY_COLUMNS} values ({READY_ROW.format("new")})
    on duplicate key update since = values(since), expires_at = values(expires_at), lease = values(lease),
      attempt = values(attempt);"""

# A trigger may not write the table that fired it, so it changes its row before that. The id of a new
# row is not known yet then: its turn follows the highest one.
_BEFORE_INSERT = f"""
create trigger <prefix>job_before_insert before insert on <job> for each row begin
  declare next_id bigint;
  if new.id = {HIGHEST_ID} then
    signal sqlstate '45000' set message_text = 'constraint: no id is left after this one';
  end if;
  if new.fair is not null and {_NEW_IS_READY} then
    set next_id = (select coalesce(max(id), 0) + 1 from <job>);
    set new.turn = ({FAIR_TURN.format("").replace("new.id", "next_id")});
  end if;
  if {_NEW_IS_FINISHED} and new.finished_at is null then
    set new.finished_at = new.created_at;
  end if;
end
"""
# Without RETURNING, a statement reads its ids here: the numbers of several statements at once are mixed. Each run of
# them is noted by its ends.
_NOTE_ID = """/*!80000
  if @rowcall_statement <=> concat(last_insert_id(), now(6)) then
    if new.id <> @rowcall_last + @@auto_increment_increment then
      set @rowcall_runs = concat(@rowcall_runs, @rowcall_last, '],[', new.id, ',');
    end if;
  else
    set @rowcall_statement = concat(last_insert_id(), now(6)), @rowcall_runs = concat('[[', new.id, ',');
  end if;
  set @rowcall_last = new.id; */"""
_AFTER_INSERT = f"""
create trigger <prefix>job_after_insert after insert on <job> for each row begin
  if new.id < 1 then
    signal sqlstate '45000' set message_text = 'constraint: an id must be greater than 0';
  end if;
  {_NOTE_ID}
  if {_NEW_IS_READY} then {_INSERT_READY}
  end if;
  if new.tags is not null then
    insert ignore into <job_tag> (tag, job_id, status)
    select given.tag, new.id, new.status
    from json_table(new.tags, '$[*]' columns (tag varchar(700) collate {COLLATION} path '$')) as given
    where given.tag is not null;
  end if;
  if {_NEW_IS_FINISHED} then {_count("new", 1)}
  end if;
end
"""
_BEFORE_UPDATE = f"""
create trigger <prefix>job_before_update before update on <job> for each row begin
  if {IS_NO_END} and {TURN_IS_OVER} then
    set new.turn = ({FAIR_TURN.format("")});
  end if;
end
"""
_CHANGED = " and ".join(f"old.{column} <=> new.{column}" for column in READY_CHANGES.replace("\n", " ").split(", "))
# A pending job without a ready row is claimed: a change of its priority does not make it ready again.
_AFTER_UPDATE = f"""
create trigger <prefix>job_after_update after update on <job> for each row begin
  declare was_ready boolean default false;
  if {IS_NO_END} and ({_OLD_IS_READY} or {_NEW_IS_READY}) and not ({_CHANGED}) then
    if {_OLD_IS_READY} then
      delete from <ready> where {READY_KEY.format("old")} and id = old.id;
      set was_ready = row_count() > 0;
    end if;
    if {_NEW_IS_READY} and (was_ready or not ({_OLD_IS_READY})
       and not exists (select 1 from <claim> where job_id = new.id)) then {_INSERT_READY}
    end if;
  end if;
  if new.tags is not null and new.status <> old.status then
    update <job_tag> set status = new.status where job_id = new.id;
  end if;
end
"""
# the events of the job are deleted with it, so they are noted before
_BEFORE_DELETE = f"""
create trigger <prefix>job_before_delete before delete on <job> for each row begin
  if not ({_OLD_IS_FINISHED}) and {_IS_READ} then
    insert into <change> (jobs)
    select concat('[[', old.id, ',-', old.id, ']', coalesce(concat(',[-', min(id), ',-', max(id), ']'), ''), ']')
    from <event> where job_id = old.id;
  end if;
end
"""
# skip locked: a settle that has locked the claim waits for the job, and drops the claim on its own
_AFTER_DELETE = f"""
create trigger <prefix>job_after_delete after delete on <job> for each row begin
  declare free_claim bigint;
  if {_OLD_IS_READY} then
    delete from <ready> where {READY_KEY.format("old")} and id = old.id;
  end if;
  if {_OLD_IS_FINISHED} then {_count("old", -1)}
  else
    if old.batch_id is not null then
      insert into <batch_tally> (batch_id, jobs) values (old.batch_id, -1);
    end if;
    set free_claim = (select job_id from <claim> where job_id = old.id for update skip locked);
    delete from <claim> where job_id = free_claim;
  end if;
  delete from <edge> where job_id = old.id;
  delete from <slot> where job_id = old.id and worker is null;
  delete from <step> where job_id = old.id;
  delete from <signal> where job_id = old.id;
  delete from <stream> where job_id = old.id;
  delete from <log> where job_id = old.id;
end
"""

# a change of a table lets others read it, and keeps out who writes
LOCKING = Locking(dict.fromkeys(TableChange, "write"), seconds_read=2e-6, seconds_written=25e-6)

MIGRATIONS = (
    Migration(
        1,
        1,
        "the tables of the first release",
        (
            *(_table(name, columns) for name, columns in FIRST_TABLES.items() if name != "migration"),
            *(_table("blob", _BLOB), _table("mutex", _MUTEX)),
            *_indexes(INDEXES),
            "create index <prefix>edge_unsure on <edge> (unsure)",
            "create index <prefix>waiter_by_job on <waiter> (job_id)",
            f"insert ignore into <mutex> (slot) with recursive numbers (slot) as (select 0 union all"
            f" select slot + 1 from numbers where slot < {MOST_SLOTS - 1}) select slot from numbers",
            NAME_QUEUE.format("uuid()").replace("insert", "insert ignore", 1),
        ),
    ),
    *(
        migration._replace(
            statements=tuple(
                part
                for statement in migration.statements
                for part in (_index(statement) if " index " in statement else (statement,))
            )
        )
        for migration in later_migrations(FIRST_TABLES, _table, lambda *column: _definition("", *column), _recheck)
    ),
)
NEWEST_VERSION = MIGRATIONS[-1].version


def _code(statement: str) -> Iterator[Code]:
    kind, name = statement.split()[1:3]
    for part in (f"drop {kind} if exists {name}", _sql(statement)):
        yield Code(part, (part,))


_TRIGGERS = (_BEFORE_INSERT, _AFTER_INSERT, _BEFORE_UPDATE, _AFTER_UPDATE, _BEFORE_DELETE, _AFTER_DELETE)
CODE = tuple(part for statement in (*_TRIGGERS, *VIEWS) for part in _code(statement))

"""The plans of a move: read rows here, write them there, and say how far it is.

The state of a move is a setting on both sides. A mover that writes to the target first replaces the state it knows: if
another one has taken the move over, it finds another state, and writes nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, cast

import msgspec

from rowcall.store.dialect import Dialect
from rowcall.store.ends.after import check_parents, check_unsure_edges
from rowcall.store.moves.guards import WRITES_OF_MOVE
from rowcall.store.moves.state import AWAY, HERE, SEALING, WATCHED, MoveState, change_state, state_of
from rowcall.store.moves.tables import DELETE_READY, MAKE_READY, MOVED, OWNED, READY_KEYS, WHOLE
from rowcall.store.queries.counts import ADD_SETTING, DROP_SETTING
from rowcall.store.queries.flows import UNSURE_EDGES
from rowcall.store.rendering import literals
from rowcall.store.statement import Parameter, Plan, Row, as_json, plain

AT_ONCE = 1000
"""How many ids one statement names."""
ACTOR = "rowcall move"
OWN_SETTINGS = (AWAY, HERE, WRITES_OF_MOVE)
"""Settings that are about one database."""

Rows = Mapping[str, Sequence[Row]]
"""Rows of tables, as `MovedTable.read` returns them."""


class Noted(NamedTuple):
    """Jobs that have changed, and the rows that say so."""

    ids: list[int]
    rows: list[int]


def writing(dialect: Dialect, before: MoveState, after: MoveState, plan: Plan[None]) -> Plan[None]:
    """Run a plan that writes to the closed target, if the move is still this one's."""
    yield from change_state(dialect, HERE, before, after)
    yield from dialect.ask(ADD_SETTING, WRITES_OF_MOVE, "")
    yield from plan
    yield from dialect.ask(DROP_SETTING, WRITES_OF_MOVE)


# reading


def read_after(dialect: Dialect, after: int, upto: int, limit: int) -> Plan[Rows]:
    """Return the next jobs, with all that belongs to them."""
    jobs = yield from dialect.shared(
        f"{MOVED['job'].read} where id > {after} and id <= {upto} order by id limit {limit}"
    )
    if not jobs:
        return {}
    last = jobs[-1][MOVED["job"].position("id")]
    rows = {"job": jobs}
    for name in OWNED[1:]:
        rows[name] = yield from dialect.shared(f"{MOVED[name].read} where job_id > {after} and job_id <= {last}")
    return rows


def rows_of(job_id: int, rows: Rows) -> Rows:
    """Return the rows of one job."""
    places = {name: MOVED[name].position(MOVED[name].of_job) for name in rows}
    return {name: [row for row in rows[name] if row[places[name]] == job_id] for name in rows}


def read_jobs(dialect: Dialect, ids: Iterable[int]) -> Plan[Rows]:
    """Return these jobs, as far as they exist, with all that belongs to them."""
    chosen = ", ".join(map(str, ids))
    rows: dict[str, Sequence[Row]] = {}
    for name in OWNED:
        table = MOVED[name]
        rows[name] = yield from dialect.shared(f"{table.read} where {table.of_job} in ({chosen})")
    return rows


def noted(dialect: Dialect, limit: int) -> Plan[Noted]:
    """Return the next jobs that have changed since they were copied, each once."""
    rows = yield from dialect.shared(f"select seq, job_id from <prefix>moving order by seq limit {limit}")
    pairs = cast("list[tuple[int, int]]", rows)
    return Noted(sorted({job_id for _, job_id in pairs}), [seq for seq, _ in pairs])


def forget_noted(dialect: Dialect, rows: Sequence[int]) -> Plan[None]:
    yield from dialect.shared(f"delete from <prefix>moving where seq in ({', '.join(map(str, rows))})")


def read_whole(dialect: Dialect) -> Plan[Rows]:
    """Return the tables that are copied as a whole."""
    tables: dict[str, Sequence[Row]] = {}
    for name in WHOLE:
        rows = yield from dialect.shared(MOVED[name].read)
        tables[name] = [row for row in rows if not _is_own(name, row)]
    return tables


def _is_own(table: str, row: Row) -> bool:
    """Return whether a row is about the move."""
    if table == "setting":
        return row[0] in OWN_SETTINGS
    return table == "pause" and row[MOVED["pause"].position("actor")] == ACTOR


def counts_without(dialect: Dialect, ids: Sequence[int]) -> Plan[Counter[tuple[str, str]]]:
    """Return how many jobs there are of each state and task, without some."""
    counts: Counter[tuple[str, str]] = Counter()
    rows = yield from dialect.shared("select status, type, count(*) from <job> group by status, type")
    left_out = []
    for start in range(0, len(ids), AT_ONCE):
        chosen = ", ".join(map(str, ids[start : start + AT_ONCE]))
        left_out += yield from dialect.shared(f"select status, type, -1 from <job> where id in ({chosen})")
    for status, task, number in cast("list[tuple[str, str, int]]", [*rows, *left_out]):
        counts[status, task] += number
    return Counter({key: number for key, number in counts.items() if number})


# writing


def write_jobs(dialect: Dialect, rows: Rows) -> Plan[None]:
    """Write jobs that are not there yet, and make the ready ones ready."""
    for name in OWNED:
        if rows.get(name):
            yield from dialect.shared(MOVED[name].write, as_json(rows[name]))
    if rows.get("job"):
        yield from _make_ready(dialect, [cast("int", row[0]) for row in rows["job"]])


def _make_ready(dialect: Dialect, ids: Sequence[int]) -> Plan[None]:
    yield from dialect.shared(MAKE_READY.format(ids=", ".join(map(str, ids))))


def replace_jobs(dialect: Dialect, ids: Sequence[int], rows: Rows) -> Plan[None]:
    """Write jobs again, and delete the ones that are gone."""
    chosen = ", ".join(map(str, ids))
    yield from _drop_ready(dialect, chosen)
    for name in reversed(OWNED):
        yield from dialect.shared(f"delete from <{name}> where {MOVED[name].of_job} in ({chosen})")
    yield from write_jobs(dialect, rows)


def _drop_ready(dialect: Dialect, chosen: str) -> Plan[None]:
    for key in (yield from dialect.shared(READY_KEYS.format(ids=chosen))):
        yield from dialect.shared(DELETE_READY, *cast("tuple[Parameter, ...]", key))


def replace_whole(dialect: Dialect, before: Rows | None, after: Rows) -> Plan[None]:
    """Write the tables that are copied as a whole, given what is there; None if that is not known."""
    for name in WHOLE:
        table, rows = MOVED[name], after[name]
        if before is None:
            kept = f" where name not in {literals(OWN_SETTINGS)}" if name == "setting" else ""
            yield from dialect.shared(f"delete from <{name}>{kept}")
        elif rows == before[name]:
            continue
        else:
            known, wanted = set(before[name]), set(rows)
            for row in known - wanted:
                yield from dialect.shared(table.delete, *table.key_of(row))
            rows = [row for row in rows if row not in known]
        if rows:
            yield from dialect.shared(table.write, as_json(rows))


def abandon(dialect: Dialect, before: MoveState) -> Plan[None]:
    """Empty the target, and let all others in."""
    code = yield from dialect.move_code()
    yield from change_state(dialect, HERE, before, None)
    yield from dialect.ask(ADD_SETTING, WRITES_OF_MOVE, "")
    for name in ("ready", *reversed(OWNED), *WHOLE):
        yield from dialect.shared(f"delete from <{name}>")
    yield from run_all(dialect, (*code.with_code, *code.open))


# opening and closing


def watch(dialect: Dialect, begun: MoveState) -> Plan[MoveState]:
    """Note from now on which jobs change, unless a move has begun already. Return its state."""
    known = yield from state_of(dialect, AWAY)
    if known is not None:
        return known
    code = yield from dialect.move_code()
    yield from run_all(dialect, code.watch)
    yield from change_state(dialect, AWAY, None, begun)
    return begun


def run_all(dialect: Dialect, statements: Iterable[str]) -> Plan[None]:
    """Run statements as they are."""
    for statement in statements:
        yield plain(statement)


def close(dialect: Dialect, before: MoveState | None, state: MoveState) -> Plan[None]:
    """Make the target ready to be filled: refuse all other writes, and let no trigger react."""
    code = yield from dialect.move_code()
    yield from run_all(dialect, (*code.without_code, *code.close))
    yield from change_state(dialect, HERE, before, state)


def open_target(dialect: Dialect, before: MoveState, after: MoveState | None) -> Plan[None]:
    """Let all others in. The state comes last, where a database commits each of these statements."""
    code = yield from dialect.move_code()
    yield from run_all(dialect, (*code.with_code, *code.open))
    yield from change_state(dialect, HERE, before, after)


def seal(dialect: Dialect, before: MoveState, after: MoveState) -> Plan[int]:
    """Refuse all writes to the source from now on, if no attempt runs. Return how many do: then nothing was changed.

    Where each of these statements commits, who is refused before the end finds out that it has to wait.
    """
    code = yield from dialect.move_code()
    sealing = msgspec.structs.replace(before, phase=SEALING)
    if (yield from state_of(dialect, AWAY)) != sealing:  # else this plan is repeated
        yield from change_state(dialect, AWAY, before, sealing)
    yield from run_all(dialect, code.close)  # waits for others that write; from now on no one else does
    unsettled = yield from count_unsettled(dialect)
    if unsettled:
        yield from run_all(dialect, code.open)
        yield from change_state(dialect, AWAY, sealing, before)
        return unsettled
    yield from change_state(dialect, AWAY, sealing, after)
    yield from dialect.shared("delete from <worker>")  # each registers again, and is refused
    return 0


def unseal(dialect: Dialect, before: MoveState, holder: str) -> Plan[MoveState]:
    """Let others write to a source again that was about to be sealed, and take it over. Return its state."""
    code = yield from dialect.move_code()
    taken = msgspec.structs.replace(before, holder=holder)
    if (yield from state_of(dialect, AWAY)) != taken:
        yield from change_state(dialect, AWAY, before, taken)
    yield from run_all(dialect, code.open)
    watched = msgspec.structs.replace(taken, phase=WATCHED)
    yield from change_state(dialect, AWAY, taken, watched)
    return watched


def settle_rest(dialect: Dialect) -> Plan[int]:
    """Do what workers do after others have ended jobs. Return how many attempts are left, and checks of that kind."""
    yield from check_unsure_edges(dialect)
    yield from check_parents(dialect)
    return (yield from count_unsettled(dialect))


def count_unsettled(dialect: Dialect) -> Plan[int]:
    """Return how many attempts run, and how much the next round of a worker would look at again."""
    ((claims, parents),) = yield from dialect.shared(
        "select (select count(*) from <claim>), (select count(*) from <parent_check>)"
    )
    edges = yield from dialect.ask(UNSURE_EDGES, 1)
    return cast("int", claims) + cast("int", parents) + len(edges)


def resume_claims(dialect: Dialect) -> Plan[None]:
    yield from dialect.shared("delete from <pause> where actor = <text:1>", ACTOR)


def leave(dialect: Dialect) -> Plan[None]:
    """Drop what noted changes: from a source that refuses all writes, the next move begins elsewhere."""
    code = yield from dialect.move_code()
    yield from run_all(dialect, code.unwatch)
    yield from resume_claims(dialect)


def give_up(dialect: Dialect, before: MoveState | None) -> Plan[None]:
    """Let the source continue as before the move."""
    code = yield from dialect.move_code()
    yield from run_all(dialect, (*code.open, *code.unwatch))
    yield from resume_claims(dialect)
    yield from change_state(dialect, AWAY, before, None)


def ids_to_give(dialect: Dialect) -> Plan[dict[str, int]]:
    """Return the next number of each table whose rows have one."""
    numbers: dict[str, int] = {}
    for name, table in MOVED.items():
        if table.numbered:
            numbers[name] = yield from dialect.next_id(name)
    return numbers


def give_ids(dialect: Dialect, numbers: Mapping[str, int]) -> Plan[None]:
    for name, number in numbers.items():
        yield from dialect.set_next_id(name, number)

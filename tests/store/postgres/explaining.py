"""How the server would run a statement: its plan, under the very settings that the driver uses."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import psycopg
from psycopg import sql as composed

from rowcall.domain.config import Config, Server
from rowcall.drivers.postgres.connection import _begin, connect
from rowcall.store.statement import Parameter, Plan, Row, Statement
from tests.store.postgres.databases import FINISHED, PENDING, RUNNING, SCHEDULED

Node = dict[str, Any]
Mode = Literal["custom", "generic"]

TABLES = ("rowcall_job", "rowcall_ready", "rowcall_claim")
SIZES = (1, 10, 100, 300, 500, 1000)
LAST_ID = FINISHED + SCHEDULED + PENDING + RUNNING
BY_ID = "rowcall_job_pkey(id)"
BY_CLAIM = "rowcall_claim_pkey(job_id)"
ALL_CLAIMS = "rowcall_claim_pkey()"
READY_BY_PLACE = "rowcall_ready_pkey(queue, type, rank, turn, id)"

_COLUMN = re.compile(
    r"\b(?<!\.)(status|queue|type|rank|turn|id|job_id|run_at|finished_at|expires_at|lease_until|chain_id|error_code|key|held)\b"
)


class Access(NamedTuple):
    """One way in which a plan reads a table. `condition` is what the index is entered by."""

    table: str
    kind: str
    index_name: str
    condition: str


class Case(NamedTuple):
    """A statement, and how it must reach the rows: index by index, each with the columns it is entered by."""

    make: Callable[[int], list[Statement[object]]]
    expected: Sequence[str]
    position: int = 0
    writes: bool = True


class Explainer:
    """Explains statements as a worker's own connection would run them."""

    def __init__(self, url: str, *, planned: bool = True) -> None:
        self._config = Config(server=Server(url=url))
        self._raw = connect(url, self._config, planned=planned)

    def close(self) -> None:
        self._raw.close()

    def read_whole(self, plan: Node) -> list[str]:
        """Return the tables, and the indexes not entered by their first column, that a plan goes through whole."""
        return [
            str(node.get("Index Name", node.get("Relation Name"))) for node in nodes_of(plan) if self._is_whole(node)
        ]

    def _is_whole(self, node: Node) -> bool:
        if "Index Name" not in node:
            return node["Node Type"] in ("Seq Scan", "Bitmap Heap Scan")
        first = f"select pg_get_indexdef('{node['Index Name']}'::regclass, 1, true)"
        ((column,),) = self._execute(first)
        return re.search(rf"\b{re.escape(column)}\b", node.get("Index Cond", "")) is None

    def explain(self, statement: Statement[object], mode: Mode, *, writes: bool) -> Node:
        """The plan of a statement that is run within a write transaction, or on its own."""
        raw = self._raw
        if writes:
            raw.execute(_begin(self._config, pooled=True), prepare=False)
        try:
            found = self._execute(
                f"deallocate all; set plan_cache_mode = force_{mode}_plan;"
                f" prepare probe {_types(statement.parameters)} as {statement.sql};"
                f" explain (format json) execute probe{self._values(statement.parameters)}"
            )
        finally:
            if writes:
                raw.execute("rollback", prepare=False)
        plan: Node = found[0][0][0]["Plan"]
        return plan

    def _execute(self, text: str) -> list[tuple[Any, ...]]:
        cursor = psycopg.Cursor(self._raw)
        cursor.execute(text.encode(), prepare=False)
        while cursor.nextset():
            pass  # the last statement is the one that was asked
        return cursor.fetchall() if cursor.description is not None else []

    def _values(self, parameters: Sequence[Parameter]) -> str:
        values = ", ".join(composed.Literal(value).as_string(self._raw) for value in parameters)
        return f"({values})" if parameters else ""


def _types(parameters: Sequence[Parameter]) -> str:
    """As the driver says them: whole numbers are bigint, and of all else the server finds out."""
    types = ", ".join("bigint" if isinstance(value, int) else "unknown" for value in parameters)
    return f"({types})" if parameters else ""


def statements_of(plan: Plan[object], *answers: list[Row]) -> list[Statement[object]]:
    """Yield the statements of one of the dialect's plans, each after the answer to the one before."""
    return [next(plan), *(plan.send(answer) for answer in answers)]


def nodes_of(plan: Node) -> Iterator[Node]:
    yield plan
    for inner in plan.get("Plans", ()):
        yield from nodes_of(inner)


def accesses(plan: Node, table: str) -> list[Access]:
    return [
        Access(table, node["Node Type"], node.get("Index Name", ""), node.get("Index Cond", ""))
        for node in nodes_of(plan)
        if node.get("Relation Name") == table and node["Node Type"].endswith("Scan")
    ]


def reads(plan: Node) -> list[Access]:
    """How the jobs, the ready jobs and the claims are read."""
    return [access for table in TABLES for access in accesses(plan, table)]


def sorts(plan: Node) -> list[Node]:
    return [node for node in nodes_of(plan) if "Sort" in node["Node Type"]]


def shown(access: Access) -> str:
    """The index, and those of the table's columns that it is entered by; or the table, where all rows are read."""
    if access.kind == "Tid Scan":
        return "by row"
    if access.kind == "Seq Scan":
        return access.table
    assert access.kind in ("Index Scan", "Index Only Scan"), access
    return f"{access.index_name}({', '.join(dict.fromkeys(_COLUMN.findall(access.condition)))})"


def running_ids(size: int) -> list[int]:
    """Ids of running jobs, where there are any."""
    return list(range(LAST_ID - size + 1, LAST_ID + 1))


def plans(explainer: Explainer, case: Case, mode: Mode) -> Iterator[Node]:
    """The plans for groups of every size."""
    for size in SIZES:
        yield explainer.explain(case.make(size)[case.position], mode, writes=case.writes)


def check(explainer: Explainer, cases: Mapping[str, Case], mode: Mode) -> None:
    """Check that each statement goes through its indexes and sorts nothing, whatever the size of the group."""
    for name, case in cases.items():
        for plan in plans(explainer, case, mode):
            assert sorted(map(shown, reads(plan))) == sorted(case.expected), (name, plan)
            assert sorts(plan) == [], (name, plan)
            for access in accesses(plan, "rowcall_worker"):
                assert access.index_name == "rowcall_worker_pkey", (name, plan)

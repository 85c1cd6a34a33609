from __future__ import annotations

import pytest

from rowcall.base.effects import drive
from rowcall.store.statement import Plan, Row, Statement, as_is, execute, fetch, first

ASK = Statement("select 1", (), as_is)


def rows_of(statement: Statement[object]) -> list[Row]:
    return [(1,), (2,)] if statement.sql == "select 1" else []


def test_a_plan_receives_rows_and_returns_a_result() -> None:
    def plan() -> Plan[object]:
        both = yield from fetch(Statement("select 1", (), lambda row: row[0]))
        one = yield from first(ASK)
        none = yield from first(Statement("select 2", (), as_is))
        yield from execute(ASK)
        return both, one, none

    assert drive(plan(), rows_of) == ([1, 2], (1,), None)


def test_a_plan_without_statements_is_fine() -> None:
    def plan() -> Plan[str]:
        if False:
            yield ASK
        return "done"

    assert drive(plan(), rows_of) == "done"


def test_an_error_of_the_database_goes_to_the_caller_and_never_into_the_plan() -> None:
    seen: list[str] = []

    def plan() -> Plan[None]:
        try:
            yield from execute(ASK)
        except Exception:
            seen.append("caught")
        finally:
            seen.append("closed")

    def fail(statement: Statement[object]) -> list[Row]:
        raise ConnectionError("gone")

    with pytest.raises(ConnectionError, match="gone"):
        drive(plan(), fail)
    assert seen == ["closed"]


def test_an_error_of_the_plan_goes_to_the_caller() -> None:
    def plan() -> Plan[None]:
        yield from execute(ASK)
        raise LookupError("nothing there")

    with pytest.raises(LookupError, match="nothing there"):
        drive(plan(), rows_of)


def test_a_statement_shows_itself_on_one_line() -> None:
    assert repr(Statement("select\n   1", (2,), as_is)) == "Statement('select 1', (2,))"

from __future__ import annotations

import pytest

from rowcall.drivers.caller.placeholders import counted


@pytest.mark.parametrize(
    ("sql", "expected", "order"),
    [
        ("select $1, $2", "select %s, %s", (0, 1)),
        ("select ?2 + ?1 + ?2", "select %s + %s + %s", (1, 0, 1)),
        ("select $1::bigint", "select (%s)::bigint", (0,)),
        ("select 'a%' where x = $1", "select 'a%%' where x = %s", (0,)),
        ('select $1 from "tenant$1".job', 'select %s from "tenant$1".job', (0,)),
        ("select $1 from tenant$1.job", "select %s from tenant$1.job", (0,)),
    ],
)
def test_numbered_parameters_are_counted_off(sql: str, expected: str, order: tuple[int, ...]) -> None:
    assert counted(sql) == (expected, order)


def test_parameters_are_arranged() -> None:
    assert counted("select $2, $1, $2").arranged(("a", "b")) == ("b", "a", "b")

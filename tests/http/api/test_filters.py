from __future__ import annotations

import pytest

from rowcall.http.api.filters import BodyFilter, JobsQuery, object_of
from rowcall.http.problems import Problem


def test_only_filters_that_are_given() -> None:
    assert JobsQuery(queue="mail", payload='{"a": 1}', limit=3).given() == {"queue": "mail", "payload": {"a": 1}}
    assert BodyFilter(payload={"a": 1}).given() == {"payload": {"a": 1}}


@pytest.mark.parametrize("text", ["", "1", "[]", "{", "null", "a", "a=", "=1", "a=1 b", 'a="', "a = 1"])
def test_values_of_arguments_are_an_object(text: str) -> None:
    with pytest.raises(Problem, match="payload must be customer=7 or a JSON object"):
        object_of(text)

"""An exception that a child describes, and the worker rebuilds."""

from __future__ import annotations

import pytest

from rowcall import Cancel, Fail, Retry, Snooze
from rowcall.declare.failures import Failures
from rowcall.worker.isolation.child_exceptions import described, rebuilt
from rowcall.worker.isolation.messages import Failed, line_of, to_worker


def through_a_socket(error: BaseException) -> BaseException:
    message = to_worker.decode(line_of(described(error, Failures(), is_declared=False)))
    assert isinstance(message, Failed)
    return rebuilt(message)


def test_a_known_class_keeps_its_arguments_and_attributes() -> None:
    error = FileNotFoundError(2, "no such file")
    error.add_note("a note")
    found = through_a_socket(error)
    assert (type(found), found.args) == (FileNotFoundError, (2, "no such file"))
    assert vars(found) == {"__notes__": ["a note"]}


def test_a_class_that_the_worker_does_not_know_stands_below_the_bases_that_it_knows() -> None:
    class Local(LookupError):
        pass

    found = through_a_socket(Local("missing"))
    assert (type(found).__name__, str(found)) == ("Local", "missing")
    assert isinstance(found, LookupError)
    assert type(found) is not Local


def test_arguments_that_are_not_json_leave_the_text() -> None:
    found = through_a_socket(ValueError(object))
    assert isinstance(found, ValueError)
    assert str(found) == str(object)


@pytest.mark.parametrize("error", [Retry(3, "later"), Snooze(5), Fail("A:B", "why"), Cancel("why")])
def test_what_the_handler_chose_is_kept(error: Exception) -> None:
    found = through_a_socket(error)
    assert (type(found), str(found)) == (type(error), str(error))

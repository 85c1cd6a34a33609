"""The exceptions that a log shows: like the real ones, without their objects."""

from __future__ import annotations

import traceback

import pytest

from rowcall.domain.errors import Fail
from rowcall.domain.failure import unchanged
from rowcall.observe.frames import MOST_FRAMES
from rowcall.observe.shown_exceptions import MOST_CAUSES, drop_callers, exception_of, frames_of, shown


class Picky(Exception):
    def __new__(cls, one: int, two: int) -> Picky:
        return super().__new__(cls, one, two)

    def __str__(self) -> str:
        return f"{self.args[0]} is not {self.args[1]}"


def caught(error: BaseException, depth: int = 0) -> BaseException:
    try:
        if depth:
            raise caught_deeply(error, depth)
        raise error
    except BaseException as raised:
        return raised


def caught_deeply(error: BaseException, depth: int) -> BaseException:
    if depth == 0:
        raise error
    return caught_deeply(error, depth - 1)


def logged(error: BaseException) -> str:
    return "".join(traceback.format_exception(exception_of(shown(error, unchanged))))


@pytest.mark.parametrize(
    "error",
    [
        ValueError("too small"),
        FileNotFoundError(2, "gone", "a.txt"),
        KeyError("missing"),
        ExceptionGroup("several", [ValueError("one")]),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "odd"),
        Picky(1, 2),
        StopIteration(3),
        KeyboardInterrupt(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_copy_has_the_class_the_text_and_the_lines(error: BaseException) -> None:
    copy = exception_of(shown(caught(error), unchanged))
    assert type(copy).__name__ == type(error).__name__
    assert str(copy) == (str(error) or "KeyboardInterrupt")
    assert frames_of(copy) == frames_of(error) != []


def test_a_copy_looks_like_the_original() -> None:
    try:
        try:
            raise ValueError("first")
        except ValueError:
            raise LookupError("second")  # noqa: B904 (the context is what is tested)
    except LookupError as error:
        real, copied = "".join(traceback.format_exception(error)), logged(error)
    without_marks = [line for line in real.splitlines() if line.strip(" ^~") or not line]
    assert copied.splitlines() == without_marks


def test_a_hidden_context_stays_hidden() -> None:
    error = caught(LookupError("second"))
    error.__context__ = caught(ValueError("first"))
    assert "first" in logged(error)
    error.__suppress_context__ = True
    assert "first" not in logged(error)


def test_notes_are_kept() -> None:
    error = caught(ValueError("x"))
    error.add_note("of order 7")
    assert logged(error).endswith("ValueError: x\nof order 7\n")


def test_an_endless_chain_of_causes_and_a_deep_recursion_are_cut() -> None:
    one, other = ValueError("one"), ValueError("other")
    one.__cause__, other.__cause__ = other, one
    assert logged(one).count("ValueError") == MOST_CAUSES + 1
    deep = caught(ValueError("deep"), 400)
    found = frames_of(deep)
    assert len(found) == MOST_FRAMES
    assert (found[0].function, found[-1].line) == ("caught", deep_line())


def deep_line() -> int:
    return caught_deeply.__code__.co_firstlineno + 2


def test_frames_of_the_caller_are_dropped_unless_there_are_no_others() -> None:
    names = {"__package__": "rowcall.worker.lanes", "fail": caught_deeply, "error": ValueError("x")}
    for line, functions in (("fail(error, 0)", ["caught_deeply"]), ("1 / 0", ["<module>"])):
        try:
            exec(line, names)
        except Exception as error:
            own = error.with_traceback(error.__traceback__ and error.__traceback__.tb_next)
            assert [frame.function for frame in frames_of(drop_callers(own))] == functions


@pytest.mark.parametrize("package", ["rowcall.declare", "rowcall.middleware", "rowcall.integrations.celery"])
def test_frames_between_middleware_and_handler_are_dropped(package: str) -> None:
    between = {"__package__": package, "fail": caught_deeply, "error": ValueError("x")}
    middleware = {"__package__": "app", "go_on": lambda: exec("fail(error, 0)", between)}
    with pytest.raises(ValueError, match="x") as found:
        exec("go_on()", middleware)
    assert [frame.function for frame in frames_of(found.value)][-2:] == ["<module>", "caught_deeply"]
    assert [frame.function for frame in frames_of(drop_callers(found.value))][-2:] == ["<lambda>", "caught_deeply"]


def test_frames_of_an_integration_are_dropped_at_the_end_and_in_causes() -> None:
    names = {
        "__package__": "rowcall.integrations.celery",
        "fail": caught_deeply,
        "ValueError": ValueError,
        "Fail": Fail,
    }
    code = "try: fail(ValueError('x'), 0)\nexcept ValueError as error: raise Fail('A:B') from error"
    with pytest.raises(Fail) as chosen:
        exec(code, names)
    error = chosen.value.with_traceback(chosen.value.__traceback__ and chosen.value.__traceback__.tb_next)
    assert frames_of(drop_callers(error)) == []
    assert error.__cause__ is not None
    assert [frame.function for frame in frames_of(error.__cause__)] == ["caught_deeply"]
    with pytest.raises(ZeroDivisionError) as found:
        exec("1 / 0", {"__package__": "rowcall.integrations.celery"})
    assert [frame.function for frame in frames_of(drop_callers(found.value))][-1] != "<module>"

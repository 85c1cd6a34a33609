"""How arguments are bound to a signature, and what is refused."""

from __future__ import annotations

import ast
import functools
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rowcall
from rowcall import Context, InvalidArguments, InvalidOption
from rowcall.domain.payload import (
    HANDLER_RETURNED,
    RESULT_IS,
    Arguments,
    PayloadUnfit,
    payload_from_row,
    result_to_json,
    tags_from_row,
    takes_context,
    untyped_to_json,
    value_from_row,
)


def send(to: str, subject: str = "hi", *, copies: int = 1) -> None: ...
def nothing_special(a: int, b: int = 2) -> None: ...


def positional(a: int, b: int = 2, /, c: int = 3) -> None: ...
def all_optional(a: int = 1, b: int = 2, /) -> None: ...
def unannotated(a, b=None): ...  # type: ignore[no-untyped-def]
def with_context(ctx: Context, a: int) -> None: ...
def context_second(a: int, ctx: Context) -> None: ...
def of_strings(ctx: "Context", a: "int") -> None: ...  # noqa: UP037
def nothing() -> None: ...


class Handler:
    def __call__(self, a: int) -> None: ...

    def method(self, a: int) -> None: ...


def arguments_of(function: Callable[..., object]) -> Arguments:
    return Arguments("send", function, skip_first=takes_context(function, Context))


def call(function: Callable[..., object], *args: object, **kwargs: object) -> tuple[list[object], dict[str, object]]:
    """What the handler would be called with."""
    arguments = arguments_of(function)
    return arguments.from_json(arguments.to_json(args, kwargs))


def test_arguments_are_bound_by_position_and_by_name() -> None:
    assert call(send, "a") == ([], {"to": "a"})
    assert call(send, "a", "b", copies=2) == ([], {"to": "a", "subject": "b", "copies": 2})
    assert call(send, to="a", subject="b") == ([], {"to": "a", "subject": "b"})
    assert call(nothing) == ([], {})


def test_a_decorated_function_gets_its_arguments_by_name() -> None:
    @functools.wraps(nothing_special)
    def by_name(**arguments: object) -> None: ...

    assert call(nothing_special, 1, 2) == ([1, 2], {})
    assert call(by_name, 1, 2) == ([], {"a": 1, "b": 2})


def test_the_payload_is_a_json_object_of_argument_names() -> None:
    assert arguments_of(send).to_json(("a",), {"copies": 2}) == '{"to":"a","copies":2}'
    assert arguments_of(nothing).to_json((), {}) == "{}"


def test_defaults_are_left_to_the_function_of_the_day_the_job_runs() -> None:
    assert "subject" not in arguments_of(send).to_json(("a",), {})


def test_positional_only_arguments_are_given_by_position() -> None:
    assert call(positional, 1) == ([1], {})
    assert call(positional, 1, 5, 6) == ([1, 5, 6], {})


def test_a_positional_only_argument_left_out_does_not_shift_the_others() -> None:
    args, kwargs = arguments_of(all_optional).from_json('{"b": 5}')
    bound: list[tuple[int, int]] = []

    def record(a: int = 1, b: int = 2, /) -> None:
        bound.append((a, b))

    record(*args, **kwargs)  # type: ignore[arg-type]
    assert bound == [(1, 5)]


def test_without_annotations_any_json_goes() -> None:
    assert call(unannotated, {"a": [1]}, b="x") == ([{"a": [1]}, "x"], {})


def test_a_first_parameter_of_context_is_not_an_argument() -> None:
    assert takes_context(with_context, Context)
    assert takes_context(of_strings, Context)
    assert not takes_context(context_second, Context)
    assert not takes_context(nothing, Context)
    assert call(with_context, 5) == ([5], {})


def test_every_callable_has_arguments() -> None:
    @functools.wraps(send)
    def wrapped(*args: Any, **kwargs: Any) -> None: ...

    assert call(Handler(), 5) == ([], {"a": 5})
    assert call(Handler().method, 5) == ([], {"a": 5})
    assert call(wrapped, "a") == ([], {"to": "a"})
    assert call(functools.partial(send, copies=2), "a") == ([], {"to": "a"})


@pytest.mark.parametrize(
    ("args", "kwargs", "said"),
    [
        ((), {}, "missing argument 'to'"),
        (("a", "b", "c"), {}, "takes at most 2 positional arguments, got 3"),
        (("a",), {"to": "b"}, "got two values for to"),
        (("a",), {"cc": "b"}, "unexpected argument 'cc'"),
        ((5,), {}, "argument 'to': expected `str`, got `int`"),
        ((None,), {}, "argument 'to': expected `str`, got `null`"),
        (("a",), {"copies": "2"}, "argument 'copies': expected `int`, got `str`"),
        (("a",), {"copies": 1.5}, "argument 'copies': expected `int`, got `float`"),
        (("a",), {"copies": True}, "argument 'copies': expected `int`, got `bool`"),
        ((object(),), {}, "argument 'to' is a builtins.object, which is not JSON"),
        ((b"a".hex,), {}, "a builtins.builtin_function_or_method, which is not JSON"),
        (("a\0b",), {}, "argument 'to' is a string with a NUL character, which databases refuse; remove it"),
        (("\ud800",), {}, "a string with half of a surrogate pair"),
    ],
)
def test_a_wrong_call_is_refused_with_the_tasks_name_and_the_reason(
    args: tuple[object, ...], kwargs: dict[str, object], said: str
) -> None:
    with pytest.raises(InvalidArguments) as caught:
        arguments_of(send).to_json(args, kwargs)
    assert caught.value.task == "send"
    assert said in str(caught.value)
    assert isinstance(caught.value, TypeError)


def endless() -> list[object]:
    itself: list[object] = []
    itself.append(itself)
    return itself


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (float("nan"), "NaN or infinity"),
        ([1, {"a": float("inf")}], "NaN or infinity"),
        ((float("-inf"),), "NaN or infinity"),
        ({"a": "x\0"}, "NUL"),
        ({"x\0": 1}, "NUL"),
        (["deep", ["deeper\0"]], "NUL"),
        (endless(), "nested too deeply"),
        ({(1, 2): 3}, "a builtins.tuple, which is not JSON"),
        (complex(1, 2), "a builtins.complex, which is not JSON"),
        (range(3), "a builtins.range, which is not JSON"),
        (ValueError("x"), "a builtins.ValueError, which is not JSON"),
    ],
    ids=repr,
)
def test_values_that_are_not_json_are_refused(value: object, said: str) -> None:
    attempts: list[Callable[[], object]] = [
        lambda: arguments_of(unannotated).to_json((value,), {}),
        lambda: untyped_to_json("task", {"a": value}),
    ]
    if said != "NUL":  # its work is done: a NUL in a result is replaced
        attempts.append(lambda: result_to_json("task", {"a": value}))
    for attempt in attempts:
        with pytest.raises(InvalidArguments, match=said):
            attempt()


def test_a_nul_in_a_result_is_replaced() -> None:
    result = {"a\0": ["b\0", 1, None]}
    assert result_to_json("task", result, HANDLER_RETURNED) == '{"a\ufffd":["b\ufffd",1,null]}'
    for said in ("step 's' returned", "the value is", RESULT_IS):  # the caller can correct it
        with pytest.raises(InvalidArguments, match=f"{said} .* a string with a NUL character"):
            result_to_json("task", result, said)


def test_an_escaped_backslash_before_u0000_is_not_a_nul() -> None:
    assert call(send, "\\u0000") == ([], {"to": "\\u0000"})


def test_nan_for_an_annotated_number_is_named_and_not_called_null() -> None:
    def scale(factor: float) -> None: ...

    for args, kwargs in (((float("nan"),), {}), ((), {"factor": float("nan")})):
        with pytest.raises(InvalidArguments, match="argument 'factor' is NaN or infinity, which is not JSON"):
            Arguments("scale", scale, skip_first=False).to_json(args, kwargs)


def test_a_null_next_to_numbers_is_not_taken_for_nan() -> None:
    assert call(unannotated, [None, 1.5, "null"]) == ([], {"a": [None, 1.5, "null"]})


def star(*numbers: int) -> None: ...
def double_star(**numbers: int) -> None: ...
def unknown_name(a: "NoSuchName") -> None: ...  # type: ignore[name-defined]  # noqa: F821, UP037
def half_written(a: "list[int") -> None: ...  # type: ignore[valid-type]  # noqa: F722


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (star, "numbers has no fixed names to store; declare a list or dict parameter instead"),
        (double_star, "numbers has no fixed names to store"),
        (unknown_name, "NoSuchName"),
        (half_written, "half_written"),
        (max, "signature"),
    ],
)
def test_a_function_that_cannot_be_a_task_is_refused_when_declared(function: Callable[..., object], said: str) -> None:
    with pytest.raises(InvalidOption, match="task") as caught:
        arguments_of(function)
    assert said in str(caught.value)


def test_an_annotation_that_json_can_never_be_is_refused_by_name() -> None:
    def handler(callback: Callable[[], None]) -> None: ...

    handler.__annotations__ = {"callback": Callable[[], None], "return": None}
    with pytest.raises((InvalidOption, InvalidArguments), match=r"[Cc]allable"):
        arguments_of(handler).to_json((5,), {})


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ("not json", "INVALID_INPUT:NOT_JSON", "the payload is not JSON"),
        ("", "INVALID_INPUT:NOT_JSON", "the payload is not JSON"),
        ('{"to": "a"', "INVALID_INPUT:NOT_JSON", "the payload is not JSON"),
        ("[" * 100_000, "INVALID_INPUT:", ""),
        ("[]", "INVALID_INPUT:SCHEMA_MISMATCH", "expected `object`, got `array`"),
        ("null", "INVALID_INPUT:SCHEMA_MISMATCH", "got `null`"),
        ("{}", "INVALID_INPUT:SCHEMA_MISMATCH", "missing argument 'to'"),
        ('{"to": 5}', "INVALID_INPUT:SCHEMA_MISMATCH", "argument 'to': expected `str`, got `int`"),
        ('{"to": "a", "b": 1}', "INVALID_INPUT:SCHEMA_MISMATCH", "unexpected argument 'b'"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_a_row_that_does_not_match_has_a_code(text: str, code: str, said: str) -> None:
    with pytest.raises(PayloadUnfit) as caught:
        arguments_of(send).from_json(text)
    assert caught.value.code.startswith(code)
    assert said in caught.value.detail


@pytest.mark.parametrize("arguments", [[], [("a", 1)], "a", 5, {1: 2}, {"a": 1, None: 2}])
def test_arguments_by_name_are_a_dict_of_names(arguments: object) -> None:
    with pytest.raises(InvalidArguments, match="must be a dict of argument names to values"):
        untyped_to_json("task", arguments)


texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)
json_values: st.SearchStrategy[object] = st.deferred(
    lambda: (
        st.none()
        | st.booleans()
        | st.integers(-(2**63), 2**63 - 1)
        | st.floats(allow_nan=False, allow_infinity=False)
        | texts
        | st.lists(json_values, max_size=4)
        | st.dictionaries(texts, json_values, max_size=4)
    )
)


@given(json_values, st.integers(), texts)
def test_whatever_json_can_hold_comes_back(value: object, number: int, text: str) -> None:
    def handler(value: Any, number: int, *, text: str) -> None: ...

    handler.__annotations__ = {"value": Any, "number": int, "text": str, "return": None}
    assert call(handler, value, number, text=text) == ([], {"value": value, "number": number, "text": text})
    assert payload_from_row(untyped_to_json("task", {"value": value})) == {"value": value}
    assert value_from_row(result_to_json("task", value)) == value


@given(st.text())
def test_a_payload_is_shown_whatever_plain_sql_wrote(text: str) -> None:
    shown = payload_from_row(text)
    assert shown == {"__raw__": text} or msgspec.json.decode(text) == shown
    assert value_from_row(text) is not None or text.strip() == "null"


def test_tags_are_shown_as_texts() -> None:
    assert tags_from_row(None) == ()
    assert tags_from_row('["a", 1]') == ("a", "1")


def test_none_is_stored_as_no_result() -> None:
    assert result_to_json("task", None) is None
    assert value_from_row(None) is None


def test_pydantic_is_not_imported_for_apps_without_it() -> None:
    code = "import sys, rowcall; sys.exit('pydantic' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add((node.module or "").partition(".")[0])
    return found


def test_nothing_that_runs_code_from_data_is_imported_anywhere() -> None:
    sources = list(Path(rowcall.__file__).parent.rglob("*.py"))
    assert len(sources) > 30
    dangerous = {"pickle", "cPickle", "dill", "cloudpickle", "marshal", "shelve", "jsonpickle", "yaml"}
    assert {path.name: found for path in sources if (found := imports(path) & dangerous)} == {}


@pytest.mark.parametrize("by_position", [True, False], ids=["by position", "by name"])
def test_nan_is_refused_next_to_an_opaque_value(by_position: bool) -> None:
    def send(a: object, b: object) -> None: ...

    values = (float("nan"), msgspec.Raw(b"null"))
    given = (values, {}) if by_position else ((), dict(zip(("a", "b"), values, strict=True)))
    with pytest.raises(InvalidArguments, match="NaN or infinity"):
        Arguments("send", send, skip_first=False).to_json(*given)


def test_the_deepest_value_that_can_be_encoded_is_refused() -> None:
    def send(a: object) -> None: ...

    arguments = Arguments("send", send, skip_first=False)
    problems: set[str] = set()
    for depth in range(900, 1010):
        value: object = None
        for _ in range(depth):
            value = [value]
        try:
            arguments.to_json((value,), {})
        except InvalidArguments as error:
            problems.add(error.problem)
    assert problems == {"argument 'a' is nested too deeply, or contains itself"}


def test_a_long_problem_is_searched_once() -> None:
    """A search that starts again at each mark takes hours for this many."""
    marks = " - at `$" * 1_000_000
    assert arguments_of(send).explain(msgspec.ValidationError(f"{marks}.to`")).startswith("argument 'to': ")
    assert arguments_of(send).explain(msgspec.ValidationError(f"{marks}.to` x")).startswith("argument 'to` x': ")

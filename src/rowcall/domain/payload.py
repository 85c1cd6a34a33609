"""Arguments to JSON and back, by the annotations of the function. JSON only: a payload never runs code."""

from __future__ import annotations

import inspect
import re
import sys
import typing
from collections.abc import Callable, Collection, Container, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import PurePath
from types import FunctionType

import msgspec

from rowcall.base.text import decoded, did_you_mean
from rowcall.domain.blobs import MARK, RESERVED
from rowcall.domain.encryption import is_hidden
from rowcall.domain.errors import InvalidArguments, InvalidOption, in_row
from rowcall.domain.fingerprint import fingerprint_of

T = typing.TypeVar("T")
Hint = Callable[[str], str]
Field = tuple[str, object] | tuple[str, object, object]

RAW_KEY = "__raw__"
MOST_NESTED = 200
SHORTEST_TOO_DEEP = 2 * MOST_NESTED  # each level has two brackets
_NOT_ENCODABLE = (msgspec.MsgspecError, TypeError, ValueError, OverflowError, RecursionError)
_ARE_NO_DICT = "the arguments must be a dict of argument names to values"
_UNREADABLE = object()
_CONTAINERS = (dict, list, tuple)
MISMATCH_CODE = "INVALID_INPUT:SCHEMA_MISMATCH"
CHANGED_CODE = "STEPS:CHANGED"
UNKNOWN_TASK_CODE = "INVALID_INPUT:UNKNOWN_TASK"
REFUSAL_CODES = (MISMATCH_CODE, CHANGED_CODE)
"""Why a worker refuses a job that may fit another one."""
UNFIT_CODES = (*REFUSAL_CODES, UNKNOWN_TASK_CODE)
"""The codes of jobs that no worker could run."""
BAD_RESULT_CODE = "INVALID_OUTPUT:NOT_JSON"
WRONG_RESULT_CODE = "INVALID_OUTPUT:WRONG_TYPE"
RESULT_IS = "the result is"
HANDLER_RETURNED = "the handler returned"
_RESERVED = f"an object with the key {' or '.join(RESERVED)}, which marks what a row does not show; use another name"
_FILLED_IN = "{!r} is not an argument: it is a dependency, which the worker fills in; leave it out"
_NOT_FINITE = "NaN or infinity, which is not JSON; use None or a string"
_WITH_NUL = "a string with a NUL character, which databases refuse; remove it"
_PLACE = " - at `$"  # in errors of msgspec, before the path of a value
_FIELD = re.compile(r"Object (?P<kind>contains unknown|missing required) field `(?P<name>.*)`", re.DOTALL)


class NoJsonForm(TypeError):
    """An annotation that no JSON value can have."""


class PayloadUnfit(Exception):
    """A stored payload that is not JSON, or does not match the task's signature."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail


class Arguments:
    """Check, write and read the arguments of one function. `hint` explains an argument that it does not have.

    >>> def send(to: str, copies: int = 1) -> None: ...
    >>> Arguments("send", send, skip_first=False).to_json(("a@example.com",), {})
    '{"to":"a@example.com"}'
    """

    def __init__(
        self,
        task: str,
        function: Callable[..., object],
        *,
        skip_first: bool,
        filled_in: Collection[str] = (),
        hint: Hint = lambda name: "",
    ) -> None:
        self._task = task
        self._hint = hint
        self._filled_in = filled_in
        declared = parameters_of(function)[1 if skip_first else 0 :]
        parameters = [parameter for parameter in declared if parameter.name not in filled_in]
        hints = hints_of(function)
        fields: list[Field] = []
        for parameter in parameters:
            if parameter.name in RESERVED:
                raise InvalidOption(f"task {task!r}", f"no argument can have the reserved name {parameter.name}")
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                problem = f"*{parameter.name} has no fixed names to store; declare a list or dict parameter instead"
                raise InvalidOption(f"task {task!r}", problem)
            annotation = hints.get(parameter.name, typing.Any)
            fields.append(field_of(parameter.name, annotation, required=parameter.default is parameter.empty))
        self._positional_only = {p.name: p.default for p in parameters if p.kind is p.POSITIONAL_ONLY}
        self._names = [p.name for p in parameters if p.kind is not p.KEYWORD_ONLY]
        self._if_missing = {p.name: None if p.default is p.empty else p.default for p in parameters}
        self.takes_any = False
        self._defaults = any(p.default is not p.empty for p in parameters)
        # a decorator may take the arguments by name only
        is_plain = isinstance(function, FunctionType) and not {"__wrapped__", "__signature__"} & vars(function).keys()
        self._by_position = (
            is_plain
            and all(p.kind is not p.KEYWORD_ONLY for p in parameters)
            and declared[: len(parameters)] == parameters
        )
        self._decoder = decoder_of(task, fields)
        self._positional = positional(self._names)

    @property
    def names(self) -> list[str]:
        return list(self._if_missing)

    @cached_property
    def fingerprint(self) -> str:
        """What changes if other arguments fit, so that a job is not tried twice by one version of a task."""
        return fingerprint_of(self._decoder.type)

    def value_if_missing(self, name: str) -> object:
        """Return the JSON value of an argument's default; None if it has no default or it is not JSON."""
        try:
            value: object = msgspec.json.decode(plain_encoder.encode(self._if_missing.get(name)))
        except _NOT_ENCODABLE:
            return None
        return value

    def to_json(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> str:
        """Return the payload of a call, or raise `InvalidArguments`."""
        by_position = args and not kwargs and len(args) <= len(self._names)
        source: object = self._positional(*args) if by_position else self._bind(args, kwargs) if args else kwargs
        try:
            raw = plain_encoder.encode(source)
            self._decoder.decode(raw)
            problem = problem_in(raw, args if by_position else source)
        except msgspec.ValidationError as error:
            found = any(map(_not_finite, _walk(args if by_position else source)))  # it was written as null
            said = blame(self._blamable(args, kwargs), _NOT_FINITE) if found else self.explain(error)
            raise InvalidArguments(self._task, said) from error
        except _NOT_ENCODABLE as error:
            raise InvalidArguments(self._task, blame(self._blamable(args, kwargs), explain(error))) from error
        if problem is not None:
            raise InvalidArguments(self._task, blame(self._blamable(args, kwargs), problem))
        return raw.decode()

    def all_to_json(self, rows: Sequence[Mapping[str, object]]) -> list[str]:
        """Return the payload of each row of arguments by name, or raise `InvalidArguments` with the row."""
        payloads = self._at_once(rows)
        if payloads is not None:
            return payloads
        payloads = []
        for row in rows:
            with in_row(rows, len(payloads)):
                if not isinstance(row, Mapping):
                    raise InvalidArguments(self._task, f"{_ARE_NO_DICT}, got {row!r}")
                payloads.append(self.to_json((), row))
        return payloads

    def _at_once(self, rows: Sequence[Mapping[str, object]]) -> list[str] | None:
        """Return what `all_to_json` does, in a quarter of the time; None if one row must be looked at closely."""
        if not all(type(row) is dict for row in rows):
            return None
        try:
            raw = plain_encoder.encode_lines(rows)
            self._decoder.decode_lines(raw)
        except (msgspec.ValidationError, *_NOT_ENCODABLE):
            return None
        if b"null" in raw or b"\\u0000" in raw:  # see `problem_in`
            return None
        payloads = raw.decode().split("\n")[:-1]
        return payloads if len(payloads) == len(rows) else None

    def from_json(self, text: str) -> tuple[list[object], dict[str, object]]:
        """Return the arguments to call the function with, by position and by name."""
        decoded = self.decode(text)
        if self._by_position:
            values = msgspec.structs.astuple(decoded)
            if not self._defaults or not [value for value in values if value is msgspec.UNSET]:
                return list(values), {}
        kwargs = msgspec.structs.asdict(decoded)
        if self._defaults:
            kwargs = {name: value for name, value in kwargs.items() if value is not msgspec.UNSET}
        if self._positional_only:
            last = max((index for index, name in enumerate(self._positional_only) if name in kwargs), default=-1)
            given = list(self._positional_only.items())[: last + 1]
            return [kwargs.pop(name, default) for name, default in given], kwargs
        return [], kwargs

    def decode(self, text: str) -> msgspec.Struct:
        try:
            return self._decoder.decode(text)
        except msgspec.ValidationError as error:
            raise PayloadUnfit(MISMATCH_CODE, self.explain(error)) from error
        except (msgspec.DecodeError, RecursionError) as error:
            raise PayloadUnfit("INVALID_INPUT:NOT_JSON", f"the payload is not JSON: {error}") from error

    def explain(self, error: msgspec.ValidationError) -> str:
        """Return how a payload differs from the signature, and in which argument."""
        problem, path = str(error), ""
        if _PLACE in problem:
            problem, _, path = problem.rpartition(_PLACE)
        path = "" if path.startswith("[") else path.removeprefix(".").removesuffix("`")  # [ in a dict, without a name
        field = _FIELD.fullmatch(problem)
        if field is None:
            problem = problem[:1].lower() + problem[1:]
            return f"argument {path!r}: {problem}" if path else problem
        name, kind = field["name"], "missing" if field["kind"].startswith("missing") else "unexpected"
        if path:
            return f"argument {path!r}: {kind} field {name!r}"
        if name in self._filled_in:
            return _FILLED_IN.format(name)
        hint = "" if kind == "missing" else self._hint(name) or did_you_mean(name, self.names)
        return f"{kind} argument {name!r}{hint}"

    def _blamable(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> dict[str, object]:
        """Return the arguments by name, to find which one is wrong."""
        for name in self._filled_in:
            if name in kwargs:
                raise InvalidArguments(self._task, _FILLED_IN.format(name))
        return self._bind(args, kwargs)

    def _bind(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> dict[str, object]:
        if len(args) > len(self._names):
            raise InvalidArguments(
                self._task, f"takes at most {len(self._names)} positional arguments, got {len(args)}"
            )
        bound = dict(zip(self._names, args, strict=False))
        if kwargs:
            if twice := bound.keys() & kwargs.keys():
                raise InvalidArguments(self._task, f"got two values for {', '.join(sorted(twice))}")
            bound.update(kwargs)
        return bound


def decoder_of(task: str, fields: Sequence[Field] | None, kind: object = None) -> msgspec.json.Decoder[msgspec.Struct]:
    """Return a decoder of an object that has these fields and no others, or of a `kind` without fixed fields."""
    try:
        if fields is not None:
            kind = msgspec.defstruct("Arguments", fields, kw_only=True, forbid_unknown_fields=True)
        return msgspec.json.Decoder(kind, dec_hook=decode_custom)
    except (TypeError, NameError, RuntimeError) as error:
        raise InvalidOption(f"task {task!r}", f"an annotation has no JSON form: {error}") from error


def field_of(name: str, annotation: object, *, required: bool) -> Field:
    if required:
        return name, annotation
    return name, typing.Union[annotation, msgspec.UnsetType], msgspec.UNSET  # noqa: UP007


def positional(names: Sequence[str]) -> type[msgspec.Struct]:
    """Return a struct for positional arguments: it is encoded in a quarter of the time of a dict."""
    return msgspec.defstruct("Positional", [(name, object, msgspec.UNSET) for name in names], gc=False)


def takes_context(function: Callable[..., object], context: type) -> bool:
    """Return whether the first parameter is annotated with the class `context`."""
    parameters = parameters_of(function)
    return bool(parameters) and is_context(hints_of(function).get(parameters[0].name), context)


def is_context(hint: object, context: type) -> bool:
    """Return whether an annotation is `Context` or `Context[…]`."""
    return hint is context or typing.get_origin(hint) is context


def has_reserved(names: Container[str]) -> bool:
    return any(name in names for name in RESERVED)


def untyped_to_json(task: str, arguments: object) -> str:
    """Return the payload of a task that is not declared in this process: any JSON object."""
    if not isinstance(arguments, Mapping) or not all(isinstance(key, str) for key in arguments):
        raise InvalidArguments(task, f"{_ARE_NO_DICT}, got {arguments!r}")
    if has_reserved(arguments):
        raise InvalidArguments(task, f"the arguments are {_RESERVED}")
    try:
        raw = plain_encoder.encode(arguments)
        problem = problem_in(raw, arguments)
    except _NOT_ENCODABLE as error:
        raise InvalidArguments(task, blame(arguments, explain(error))) from error
    if problem is not None:
        raise InvalidArguments(task, blame(arguments, problem))
    return raw.decode()


def result_to_json(task: str, result: object, subject: str = RESULT_IS) -> str | None:
    """Return the JSON of what a handler or a step returned, None for None, or raise `InvalidArguments`.

    A handler that has returned has done its work, so a NUL in a string is replaced there, not refused.
    """
    if result is None:
        return None
    try:
        raw = plain_encoder.encode(result)
        if subject == HANDLER_RETURNED and b"\\u0000" in raw:
            raw = msgspec.json.encode(_without_nul(msgspec.json.decode(raw)))
        problem = problem_in(raw, result)
    except Exception as error:  # a class of the user's may raise anything while it is encoded
        if inspect.iscoroutine(result):
            result.close()  # the error explains it; no warning that it was never awaited
        raise InvalidArguments(task, f"{subject} {_explain_part(result, explain(error))}") from error
    text = raw.decode()
    if MARK in text and (is_hidden(text) or (isinstance(result, Mapping) and has_reserved(result))):
        problem = _RESERVED
    if problem is not None:
        raise InvalidArguments(task, f"{subject} {_explain_part(result, problem)}")
    return text


def _explain_part(result: object, problem: str) -> str:
    """Return the problem of a result, with the path of the part that has it."""
    path, problem = _blamed("", result) or ("", problem)
    return f"a {type(result).__name__} in which {path.lstrip('.')!r} is {problem}" if path else problem


def result_decoder(annotation: object) -> msgspec.json.Decoder[object] | None:
    """Return what checks the results of a handler with that annotation; None if it allows any, or has no JSON form."""
    if annotation in (None, type(None), typing.Any, object):
        return None
    try:
        return msgspec.json.Decoder(annotation, dec_hook=decode_custom)
    except (TypeError, NameError, RuntimeError):
        return None


def checked_result(
    task: str, result: object, decoder: msgspec.json.Decoder[object] | None, subject: str = RESULT_IS
) -> str | None:
    """Return the JSON of what a handler returned or completed with; None for None.

    Raise `InvalidArguments`, with an error code, if JSON cannot hold it or it does not decode to the annotation.
    """
    try:
        text = result_to_json(task, result, subject)
    except InvalidArguments as error:
        error.error_code = BAD_RESULT_CODE
        raise
    if text is None or decoder is None:
        return text
    try:
        decoder.decode(text)
    except NoJsonForm:
        pass
    except msgspec.ValidationError as error:
        if not isinstance(error.__cause__, NoJsonForm):
            wrong = InvalidArguments(task, f"{subject} a value that does not fit its annotation: {error}")
            wrong.error_code = WRONG_RESULT_CODE
            raise wrong from None  # a cause would mean that a transaction in which it is checked has failed
    return text


def value_as(kind: type[T], value: object) -> T:
    """Return a value that was read from JSON as one of that type, or raise `ValueError`.

    >>> value_as(tuple[int, int], [1, 2])
    (1, 2)
    """
    return msgspec.convert(value, kind, dec_hook=decode_custom, str_keys=True)


def result_as(annotation: object, result: object) -> object:
    """Return a stored result as the annotation of its handler says.

    A result that does not fit is returned as it is: it is from another version of the task, or was given by hand.
    """
    if result is None or annotation in (None, type(None), typing.Any):
        return result
    try:
        return value_as(annotation, result)  # type: ignore[arg-type]
    except (msgspec.ValidationError, TypeError, NameError, RuntimeError):
        return result


def payload_from_row(text: str) -> dict[str, object]:
    """Return a payload as users see it; this never fails, whatever plain SQL wrote."""
    try:
        value = _object_decoder.decode(text)
    except Exception:  # not by `decoded`: one more call per job slows a bulk enqueue
        return {RAW_KEY: text}
    return {RAW_KEY: text} if len(text) > SHORTEST_TOO_DEEP and _is_too_deep(text, value) else value


def value_from_row(text: str | None) -> object:
    if text is None:
        return None
    value = decoded(_value_decoder, text, _UNREADABLE)
    return {RAW_KEY: text} if value is _UNREADABLE or _is_too_deep(text, value) else value


def tags_from_row(text: str | None) -> tuple[str, ...]:
    """Return the tags of a job. If they cannot be read, the text in the row is the only tag."""
    if text is None:
        return ()
    tags = decoded(_tags_decoder, text, None)
    return (text,) if tags is None or _is_too_deep(text, tags) else tuple(map(str, tags))


def _is_too_deep(text: str, value: object) -> bool:
    """Return whether a value is nested so deeply that printing, scrubbing or encoding it could overflow the stack."""
    if text.count("[") + text.count("{") <= MOST_NESTED:
        return False
    level = [value]
    for _ in range(MOST_NESTED):
        inner = [one.values() if isinstance(one, dict) else one for one in level if isinstance(one, _CONTAINERS)]
        level = [part for parts in inner for part in parts]
        if not level:
            return False
    return True


def parameters_of(function: Callable[..., object]) -> list[inspect.Parameter]:
    try:
        return list(inspect.signature(function).parameters.values())
    except (ValueError, TypeError) as error:
        raise InvalidOption(_named(function), f"has no signature: {error}") from error


def hints_of(function: Callable[..., object]) -> dict[str, object]:
    target = inspect.unwrap(function)
    if not inspect.isfunction(target) and not inspect.ismethod(target):
        target = getattr(target, "__call__", target)  # noqa: B004
    try:
        return typing.get_type_hints(target, include_extras=True)
    except (NameError, SyntaxError, TypeError) as error:
        problem = f"an annotation cannot be resolved: {error}; names in annotations must exist at run time"
        raise InvalidOption(_named(function), problem) from error


def _named(function: Callable[..., object]) -> str:
    return f"task {getattr(function, '__name__', function)!r}"


def explain(error: BaseException) -> str:
    """Return why a value is not JSON, as what it is: "a coroutine, which is not JSON"."""
    if isinstance(error, RecursionError):
        return "nested too deeply, or contains itself"
    if isinstance(error, UnicodeEncodeError):
        return "a string with half of a surrogate pair, which is not JSON"
    return str(error)


def blame(arguments: Mapping[str, object], problem: str) -> str:
    """Return the problem with the name of the argument that has it."""
    for name, value in arguments.items():
        if found := _blamed(name, value):
            return f"argument {found[0]!r} is {found[1]}"
    return f"the arguments are {problem}"


def _blamed(path: str, value: object) -> tuple[str, str] | None:
    """Return the path of the first part of a value that is not JSON, and its problem.

    >>> _blamed("x", {"a": [1, object()]})
    ('x.a[1]', 'a builtins.object, which is not JSON')
    """
    try:
        problem = problem_in(plain_encoder.encode(value), value)
    except RecursionError as error:
        return path, explain(error)
    except Exception as error:
        problem = explain(error)
    if problem is None:
        return None
    parts = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list | tuple) else ()
    for key, part in parts:
        if inner := _blamed(f"{path}.{key}" if isinstance(key, str) else f"{path}[{key!r}]", part):
            return inner
    return path, problem


def problem_in(raw: bytes, source: object) -> str | None:
    # msgspec writes NaN and infinity as null, so only a payload with a null can have one
    if b"null" in raw and any(_not_finite(value) for value in _walk(source)):
        return _NOT_FINITE
    if b"\\u0000" in raw and _has_nul(msgspec.json.decode(raw)):
        return _WITH_NUL
    return None


def _not_finite(value: object) -> bool:
    return isinstance(value, float) and (value != value or value in (float("inf"), float("-inf")))


def _has_nul(value: object) -> bool:
    return any(isinstance(part, str) and "\0" in part for part in _walk(value))


def _without_nul(value: object) -> object:
    if isinstance(value, str):
        return value.replace("\0", "\ufffd")
    if isinstance(value, list):
        return [_without_nul(part) for part in value]
    if isinstance(value, dict):
        return {_without_nul(key): _without_nul(part) for key, part in value.items()}
    return value


def _walk(value: object) -> Iterator[object]:
    """Yield the value and everything in it that becomes JSON."""
    yield value
    if isinstance(value, Mapping):
        for key, part in value.items():
            yield key
            yield from _walk(part)
    elif isinstance(value, list | tuple | set | frozenset):
        for part in value:
            yield from _walk(part)
    elif not isinstance(value, str | bytes | int | float | None):
        try:
            fields = msgspec.to_builtins(value, enc_hook=encode_custom)
        except (TypeError, ValueError):
            return
        if type(fields) is not type(value):
            yield from _walk(fields)


def encode_custom(value: object) -> object:
    if isinstance(value, PurePath):
        return str(value)
    pydantic = sys.modules.get("pydantic")
    if pydantic is not None and isinstance(value, pydantic.BaseModel):
        return value.model_dump(mode="json")
    if inspect.iscoroutine(value):
        raise TypeError("a coroutine, which is not JSON; is an await missing?")
    raise TypeError(f"a {type(value).__module__}.{type(value).__qualname__}, which is not JSON")


def decode_custom(kind: type, value: object) -> object:
    if kind is object:
        return value
    if not isinstance(kind, type):
        raise NoJsonForm(f"{kind} has no JSON form")
    if issubclass(kind, PurePath):
        if not isinstance(value, str):
            raise TypeError(f"expected a path as `str`, got `{type(value).__name__}`")
        return kind(value)
    pydantic = sys.modules.get("pydantic")
    if pydantic is not None and issubclass(kind, pydantic.BaseModel):
        return kind.model_validate_json(msgspec.json.encode(value))  # type: ignore[attr-defined]
    raise NoJsonForm(f"{kind.__module__}.{kind.__qualname__} has no JSON form")


plain_encoder = msgspec.json.Encoder(enc_hook=encode_custom, decimal_format="string")
_object_decoder = msgspec.json.Decoder(dict[str, object])
_value_decoder = msgspec.json.Decoder(object)
_tags_decoder = msgspec.json.Decoder(tuple[object, ...])

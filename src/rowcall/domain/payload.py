"""Arguments to JSON and back, by a function's own annotations. JSON only: a payload never runs code."""

from __future__ import annotations

import inspect
import sys
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import PurePath

import msgspec

from rowcall.base.text import decoded
from rowcall.domain.blobs import BLOB_KEY, reference_of
from rowcall.domain.errors import InvalidArguments, InvalidOption

T = typing.TypeVar("T")

RAW_KEY = "__raw__"
MOST_NESTED = 200
SHORTEST_TOO_DEEP = 2 * MOST_NESTED  # each level has two brackets
_UNREADABLE = object()
_CONTAINERS = (dict, list, tuple)
MISMATCH_CODE = "INVALID_INPUT:SCHEMA_MISMATCH"
_RESERVED = f"an object with the key {BLOB_KEY} could be taken for a reference to a large payload; use another name"


class PayloadUnfit(Exception):
    """A stored payload that is not JSON, or does not fit the task's signature."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail


class Arguments:
    """How the arguments of one function are checked, written and read.

    >>> def send(to: str, copies: int = 1) -> None: ...
    >>> Arguments("send", send, skip_first=False).to_json(("a@example.com",), {})
    '{"to":"a@example.com"}'
    """

    def __init__(self, task: str, function: Callable[..., object], *, skip_first: bool) -> None:
        self._task = task
        parameters = parameters_of(function)[1 if skip_first else 0 :]
        hints = hints_of(function)
        fields: list[tuple[str, object] | tuple[str, object, object]] = []
        for parameter in parameters:
            if parameter.name == BLOB_KEY:
                raise InvalidOption(f"task {task!r}", f"no argument may have the name {BLOB_KEY}: it marks a reference")
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                raise InvalidOption(
                    f"task {task!r}",
                    f"*{parameter.name} cannot be stored by name; declare a list or dict parameter instead",
                )
            annotation = hints.get(parameter.name, typing.Any)
            if parameter.default is parameter.empty:
                fields.append((parameter.name, annotation))
            else:
                fields.append((parameter.name, typing.Union[annotation, msgspec.UnsetType], msgspec.UNSET))  # noqa: UP007
        self._positional_only = {p.name: p.default for p in parameters if p.kind is p.POSITIONAL_ONLY}
        self._names = [p.name for p in parameters if p.kind is not p.KEYWORD_ONLY]
        self._if_missing = {p.name: None if p.default is p.empty else p.default for p in parameters}
        self.takes_any = False
        self._defaults = any(p.default is not p.empty for p in parameters)
        self._decoder = decoder_of(task, fields)
        self._placed = placed(self._names)

    @property
    def names(self) -> list[str]:
        return list(self._if_missing)

    def value_if_missing(self, name: str) -> object:
        """What a payload would hold of an argument that is not given; None where it has to be, or JSON has no such."""
        try:
            value: object = msgspec.json.decode(plain_encoder.encode(self._if_missing.get(name)))
        except (msgspec.MsgspecError, TypeError, ValueError, OverflowError, RecursionError):
            return None
        return value

    def to_json(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> str:
        """The payload of a call; `InvalidArguments` where it does not fit."""
        by_place = args and not kwargs and len(args) <= len(self._names)
        source: object = self._placed(*args) if by_place else self._bind(args, kwargs) if args else kwargs
        try:
            raw = plain_encoder.encode(source)
            self._decoder.decode(raw)
        except (msgspec.MsgspecError, TypeError, ValueError, OverflowError, RecursionError) as error:
            raise InvalidArguments(self._task, explain(error)) from error
        return checked_text(self._task, raw, args if by_place else source)

    def from_json(self, text: str) -> tuple[list[object], dict[str, object]]:
        """The arguments to call the function with: (positional-only ones, the rest by name)."""
        try:
            struct = self._decoder.decode(text)
        except msgspec.ValidationError as error:
            raise PayloadUnfit(MISMATCH_CODE, explain(error)) from error
        except (msgspec.DecodeError, RecursionError) as error:
            raise PayloadUnfit("INVALID_INPUT:NOT_JSON", f"the payload is not JSON: {error}") from error
        kwargs = msgspec.structs.asdict(struct)
        if self._defaults:
            kwargs = {name: value for name, value in kwargs.items() if value is not msgspec.UNSET}
        if self._positional_only:
            last = max((place for place, name in enumerate(self._positional_only) if name in kwargs), default=-1)
            given = list(self._positional_only.items())[: last + 1]
            return [kwargs.pop(name, default) for name, default in given], kwargs
        return [], kwargs

    def _bind(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> dict[str, object]:
        if len(args) > len(self._names):
            raise InvalidArguments(
                self._task, f"takes {len(self._names)} positional arguments at most, and got {len(args)}"
            )
        bound = dict(zip(self._names, args, strict=False))
        if kwargs:
            if twice := bound.keys() & kwargs.keys():
                raise InvalidArguments(self._task, f"got two values for {', '.join(sorted(twice))}")
            bound.update(kwargs)
        return bound


def decoder_of(
    task: str, fields: Sequence[tuple[str, object] | tuple[str, object, object]]
) -> msgspec.json.Decoder[msgspec.Struct]:
    """Reads an object of these fields and of no others."""
    try:
        struct = msgspec.defstruct(
            "Arguments", fields, kw_only=True, forbid_unknown_fields=True, rename=None, weakref=False
        )
        return msgspec.json.Decoder(struct, dec_hook=decode_custom)
    except (TypeError, NameError, RuntimeError) as error:
        raise InvalidOption(f"task {task!r}", f"its annotations cannot be read from JSON: {error}") from error


def placed(names: Sequence[str]) -> type[msgspec.Struct]:
    """Arguments that are given by place: written as an object of their names, in a quarter of the time of a dict."""
    return msgspec.defstruct("Placed", [(name, object, msgspec.UNSET) for name in names], gc=False)


def takes_context(function: Callable[..., object], context: type) -> bool:
    """Whether the first parameter is annotated with the class `context`."""
    parameters = parameters_of(function)
    return bool(parameters) and hints_of(function).get(parameters[0].name) is context


def untyped_to_json(task: str, arguments: object) -> str:
    """The payload of a task whose function is not known here: any JSON object."""
    if not isinstance(arguments, Mapping) or not all(isinstance(key, str) for key in arguments):
        raise InvalidArguments(task, "the arguments must be a dict of argument names to values")
    if BLOB_KEY in arguments:
        raise InvalidArguments(task, _RESERVED)
    try:
        raw = plain_encoder.encode(arguments)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise InvalidArguments(task, explain(error)) from error
    return checked_text(task, raw, arguments)


def result_to_json(task: str, result: object) -> str | None:
    """What a handler returned, as JSON; None stays None. `InvalidArguments` for what JSON cannot hold.

    The handler has done its work by then, so a NUL in a text is replaced, not refused.
    """
    if result is None:
        return None
    try:
        raw = plain_encoder.encode(result)
    except Exception as error:  # a class of the user's may raise anything while it is written
        raise InvalidArguments(task, explain(error)) from error
    if b"\\u0000" in raw:
        raw = msgspec.json.encode(_without_nul(msgspec.json.decode(raw)))
    text = checked_text(task, raw, result)
    if (isinstance(result, Mapping) and BLOB_KEY in result) or reference_of(text) is not None:
        raise InvalidArguments(task, _RESERVED)
    return text


def value_as(kind: type[T], value: object) -> T:
    """Return a value that was read from JSON as one of that type, or raise `ValueError`.

    >>> value_as(tuple[int, int], [1, 2])
    (1, 2)
    """
    return msgspec.convert(value, kind, dec_hook=decode_custom, str_keys=True)


def payload_from_row(text: str) -> dict[str, object]:
    """A payload as shown to people: never an error, whatever plain SQL wrote."""
    try:
        value = _object_decoder.decode(text)
    except Exception:  # not by `decoded`: one call more for each job is felt in a bulk enqueue
        return {RAW_KEY: text}
    return {RAW_KEY: text} if len(text) > SHORTEST_TOO_DEEP and _is_too_deep(text, value) else value


def value_from_row(text: str | None) -> object:
    if text is None:
        return None
    value = decoded(_value_decoder, text, _UNREADABLE)
    return {RAW_KEY: text} if value is _UNREADABLE or _is_too_deep(text, value) else value


def tags_from_row(text: str | None) -> tuple[str, ...]:
    """The tags of a job. Where they cannot be read, there is one: the text in the row."""
    if text is None:
        return ()
    tags = decoded(_tags_decoder, text, None)
    return (text,) if tags is None or _is_too_deep(text, tags) else tuple(map(str, tags))


def _is_too_deep(text: str, value: object) -> bool:
    """Whether a value is nested so deeply that printing, scrubbing or encoding it could run out of stack."""
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
        raise InvalidOption(
            f"task {getattr(function, '__name__', function)!r}", f"has no signature: {error}"
        ) from error


def hints_of(function: Callable[..., object]) -> dict[str, object]:
    target = inspect.unwrap(function)
    if not inspect.isfunction(target) and not inspect.ismethod(target):
        target = getattr(target, "__call__", target)  # noqa: B004
    try:
        return typing.get_type_hints(target, include_extras=True)
    except (NameError, SyntaxError, TypeError) as error:
        raise InvalidOption(
            f"task {getattr(function, '__name__', function)!r}",
            f"an annotation cannot be resolved: {error}; names used in annotations must exist at run time",
        ) from error


def explain(error: BaseException) -> str:
    if isinstance(error, RecursionError):
        return "the arguments are nested too deeply, or refer to themselves"
    if isinstance(error, UnicodeEncodeError):
        return "a text holds half of a surrogate pair, which JSON cannot hold"
    message = str(error)
    for said, meant in _PLAINER.items():
        message = message.replace(said, meant)
    return message


_PLAINER = {
    "Object contains unknown field": "there is no argument",
    "Object missing required field": "missing the argument",
    " - at `$.": " - in `",
}


def checked_text(task: str, raw: bytes, source: object) -> str:
    # msgspec writes NaN and infinity as null: only where a null was written can one have been lost
    try:
        if b"null" in raw and any(_not_finite(value) for value in _walk(source)):
            raise InvalidArguments(task, "NaN and infinity cannot be held by JSON; pass None or a text")
        if b"\\u0000" in raw and _has_nul(msgspec.json.decode(raw)):
            raise InvalidArguments(task, "a text holds a NUL character, which databases refuse; remove it")
    except RecursionError as error:
        raise InvalidArguments(task, explain(error)) from error
    return raw.decode()


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
    """The value and all it is made of, as far as JSON would look."""
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
    raise TypeError(f"JSON cannot hold a {type(value).__module__}.{type(value).__qualname__}")


def decode_custom(kind: type, value: object) -> object:
    if kind is object:
        return value
    if not isinstance(kind, type):
        raise TypeError(f"{kind} cannot be read from JSON")
    if issubclass(kind, PurePath):
        if not isinstance(value, str):
            raise TypeError(f"a path is a text, not {type(value).__name__}")
        return kind(value)
    pydantic = sys.modules.get("pydantic")
    if pydantic is not None and issubclass(kind, pydantic.BaseModel):
        return kind.model_validate_json(msgspec.json.encode(value))  # type: ignore[attr-defined]
    raise TypeError(f"{kind.__module__}.{kind.__qualname__} cannot be read from JSON")


plain_encoder = msgspec.json.Encoder(enc_hook=encode_custom, decimal_format="string")
_object_decoder = msgspec.json.Decoder(dict[str, object])
_value_decoder = msgspec.json.Decoder(object)
_tags_decoder = msgspec.json.Decoder(tuple[object, ...])

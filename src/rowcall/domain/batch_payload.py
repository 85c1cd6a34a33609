"""The arguments of a job of a batch task: one item of the handler's list."""

from __future__ import annotations

import collections.abc
import dataclasses
import inspect
import sys
import typing
from collections.abc import Callable, Collection, Mapping, Sequence

import msgspec

from rowcall.base.text import did_you_mean
from rowcall.domain.blobs import RESERVED
from rowcall.domain.errors import InvalidArguments, InvalidOption
from rowcall.domain.payload import (
    Arguments,
    Field,
    Hint,
    decoder_of,
    encode_custom,
    explain,
    field_of,
    has_reserved,
    hints_of,
    parameters_of,
    positional,
)

ITEM = "item"
_WANTED = "needs a function with one parameter, a list of items, such as `def index(items: list[Document])`"
_LISTS = (list, collections.abc.Sequence, collections.abc.Iterable, collections.abc.Collection)


class ItemArguments(Arguments):
    """The arguments are the fields of a class, any names for a dict, and one argument `item` for any other type.

    >>> def square(items: list[int]) -> list[int]: return [item * item for item in items]
    >>> ItemArguments("square", square, skip_first=False).to_json((5,), {})
    '{"item":5}'
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
        self._kind = kind = _item_of(task, function, skip_first=skip_first, filled_in=filled_in)
        fields = _fields_of(kind)
        self._is_alone = fields is None and not (_is_dict(kind) or _is_pydantic(kind))
        if self._is_alone:
            fields = [(ITEM, kind)]
        self.takes_any = fields is None
        self._positional_only = {}
        self._by_position = False
        self._names = [ITEM] if self._is_alone else []
        self._if_missing = dict.fromkeys(str(field[0]) for field in fields or ())
        if has_reserved(self._if_missing):
            raise InvalidOption(f"task {task!r}", f"no field can have a reserved name: {', '.join(RESERVED)}")
        self._defaults = any(len(field) == 3 for field in fields or ())
        self._decoder = decoder_of(task, fields, kind)
        self._positional = positional(self._names)

    def to_json(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> str:
        if args and not self._is_alone:
            args, kwargs = (), self._taken_apart(args, kwargs)
        if has_reserved(kwargs):
            raise InvalidArguments(self._task, f"no argument can have a reserved name: {', '.join(RESERVED)}")
        if _is_pydantic(self._kind):
            self._refuse_unknown(kwargs)
        return super().to_json(args, kwargs)

    def _at_once(self, rows: Sequence[Mapping[str, object]]) -> None:
        """Return None: `to_json` checks more than the decoder does."""

    def from_json(self, text: str) -> tuple[list[object], dict[str, object]]:
        """Return the item, as the one positional argument."""
        if self.takes_any:
            return [self.decode(text)], {}
        _, fields = super().from_json(text)
        if self._is_alone:
            return [fields[ITEM]], {}
        assert callable(self._kind)
        return [self._kind(**fields)], {}

    def _taken_apart(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> dict[str, object]:
        """Return the fields of an item that is given as a whole."""
        kind = dict if _is_dict(self._kind) or typing.is_typeddict(self._kind) else self._kind
        if len(args) > 1 or kwargs or not isinstance(args[0], kind):  # type: ignore[arg-type]
            name = getattr(kind, "__name__", str(kind))
            raise InvalidArguments(self._task, f"takes the fields of an item by name, or one {name}")
        try:
            fields: dict[str, object] = msgspec.to_builtins(args[0], enc_hook=encode_custom)
        except Exception as error:
            raise InvalidArguments(self._task, f"the item is {explain(error)}") from error
        return fields

    def _refuse_unknown(self, kwargs: Mapping[str, object]) -> None:
        known: Mapping[str, object] = self._kind.model_fields  # type: ignore[attr-defined]
        aliases = {getattr(field, "alias", None) for field in known.values()}
        if self._kind.model_config.get("extra") is None:  # type: ignore[attr-defined]
            for name in kwargs:
                if name not in known and name not in aliases:
                    raise InvalidArguments(
                        self._task, f"unexpected argument {name!r}{self._hint(name) or did_you_mean(name, known)}"
                    )


def _item_of(task: str, function: Callable[..., object], *, skip_first: bool, filled_in: Collection[str]) -> object:
    declared = parameters_of(function)[1 if skip_first else 0 :]
    parameters = [parameter for parameter in declared if parameter.name not in filled_in]
    if len(parameters) != 1 or parameters[0].kind not in (
        inspect.Parameter.POSITIONAL_ONLY,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
    ):
        raise InvalidOption("batch", f"{_WANTED}; {task!r} has {len(parameters)} parameters")
    annotation = hints_of(function).get(parameters[0].name, list)
    origin = typing.get_origin(annotation) or annotation
    if origin not in _LISTS:
        raise InvalidOption("batch", f"{_WANTED}; `{parameters[0].name}` of {task!r} is not a list")
    return (typing.get_args(annotation) or (typing.Any,))[0]


def _is_dict(kind: object) -> bool:
    return (typing.get_origin(kind) or kind) is dict


def _is_pydantic(kind: object) -> bool:
    pydantic = sys.modules.get("pydantic")
    return pydantic is not None and isinstance(kind, type) and issubclass(kind, pydantic.BaseModel)


def _fields_of(kind: object) -> list[Field] | None:
    """Return the fields of a dataclass, a TypedDict or a struct, or None for any other type."""
    if not isinstance(kind, type):
        return None
    if dataclasses.is_dataclass(kind):
        return [
            _field(kind, field.name, required=field.default is field.default_factory is dataclasses.MISSING)
            for field in dataclasses.fields(kind)
            if field.init
        ]
    if issubclass(kind, msgspec.Struct):
        return [_field(kind, field.name, required=field.required) for field in msgspec.structs.fields(kind)]
    if typing.is_typeddict(kind):
        wanted: frozenset[str] = getattr(kind, "__required_keys__", frozenset())
        return [_field(kind, name, required=name in wanted) for name in kind.__annotations__]
    return None


def _field(kind: type, name: str, *, required: bool) -> Field:
    annotation: object = typing.get_type_hints(kind, include_extras=True)[name]
    origin = typing.get_origin(annotation)
    if origin in (typing.Required, typing.NotRequired):  # __required_keys__ is wrong if annotations are strings
        annotation, required = typing.get_args(annotation)[0], origin is typing.Required
    return field_of(name, annotation, required=required)

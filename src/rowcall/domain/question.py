"""What a wait asks: a prompt, choices, and the form of the value. A sender checks a signal by them."""

from __future__ import annotations

import datetime
import sys
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal, Union

import msgspec

from rowcall.domain.checks import name_problem
from rowcall.domain.errors import InvalidArguments, InvalidOption
from rowcall.domain.payload import value_as
from rowcall.domain.step import WRONG_SIGNAL_CODE

LONGEST_PROMPT = 4000
MOST_CHOICES = 50

Schema = Mapping[str, Any]

_LAX = "x-rowcall-lax"
"""Marks a schema of pydantic, which also takes numbers and times in other forms."""
_PLAIN: dict[object, object] = {"string": str, "integer": int, "number": float, "boolean": bool, "null": None}
_FORMATS: dict[object, object] = {
    None: str,
    "date-time": datetime.datetime,
    "date": datetime.date,
    "time": datetime.time,
    "duration": datetime.timedelta,
    "uuid": uuid.UUID,
}
_BOUNDS = {
    "minimum": "ge",
    "exclusiveMinimum": "gt",
    "maximum": "le",
    "exclusiveMaximum": "lt",
    "multipleOf": "multiple_of",
    "minLength": "min_length",
    "maxLength": "max_length",
    "minItems": "min_length",
    "maxItems": "max_length",
    "pattern": "pattern",
}


def question_to_json(prompt: object, choices: object, kind: type[object] | None = None) -> str | None:
    """Return what is stored of a question, None if nothing is asked; or raise `InvalidOption`. `kind` is the type of
    its answer.
    """
    question: dict[str, object] = {}
    if prompt is not None:
        if problem := name_problem(prompt, LONGEST_PROMPT):
            raise InvalidOption("prompt", problem)
        question["prompt"] = prompt
    if choices is not None:
        if isinstance(choices, str) or not isinstance(choices, Sequence):
            raise InvalidOption("choices", f"must be a list of strings, got {choices!r}")
        if not 1 <= len(choices) <= MOST_CHOICES:
            raise InvalidOption("choices", f"must have 1 to {MOST_CHOICES} entries, got {len(choices)}")
        for choice in choices:
            if problem := name_problem(choice):
                raise InvalidOption("choices", f"each {problem}")
        if len(set(choices)) < len(choices):
            raise InvalidOption("choices", f"must differ, got {choices!r}")
        for choice in choices:
            try:
                value_as(kind or str, choice)
            except ValueError as error:
                raise InvalidOption("choices", f"must be values of {kind!r}, got {choice!r}: {error}") from error
        question["choices"] = list(choices)
    return msgspec.json.encode(question).decode() if question else None


def choices_of(question: object, expects: Schema | None = None) -> list[str]:
    """Return the choices of a question, or else of its type: a `Literal` or an `Enum` of strings."""
    choices: object = question.get("choices") if isinstance(question, dict) else None
    if choices is None and expects is not None:
        choices = _resolved(expects, expects).get("enum")
    return choices if isinstance(choices, list) and all(isinstance(choice, str) for choice in choices) else []


def prompt_of(question: object) -> str | None:
    found = question.get("prompt") if isinstance(question, dict) else None
    return found if isinstance(found, str) else None


def not_a_choice(
    choices: Sequence[str], value: object, shown: Callable[[Sequence[str]], Sequence[str]] = list
) -> str | None:
    """Return what is wrong with a value that must be one of the choices, if there are any."""
    if not choices or value in choices:
        return None
    return f"must be {' or '.join(map(repr, shown(choices)))}, got {value!r}"


def problem_of_value(
    question: object,
    expects: Schema | None,
    value: object,
    shown: Callable[[Sequence[str]], Sequence[str]] = list,
) -> str | None:
    """Return what is wrong with the value of a signal, or None if the wait takes it, as far as a sender can know.
    `shown` returns choices as they may be shown.

    >>> problem_of_value({"choices": ["yes", "no"]}, None, "maybe")
    "must be 'yes' or 'no', got 'maybe'"
    >>> problem_of_value(None, {"type": "object", "properties": {"cents": {"type": "integer"}}}, {"cents": "5"})
    'does not fit: Expected `int`, got `str` - at `$.cents`'
    """
    if problem := not_a_choice(choices_of(question), value, shown):
        return problem
    if expects is None:
        return None
    try:
        value_as(_kind(expects, expects, ()), value)  # type: ignore[arg-type]
    except msgspec.ValidationError as error:
        return f"does not fit: {error}"
    except Exception:  # a type that msgspec cannot check, such as a union of objects; or plain SQL wrote the schema
        pass
    return None


def skeleton_of(expects: Schema | None) -> str:
    """Return the JSON that people fill in: an object with the fields of the type. Nothing for other types.

    >>> print(skeleton_of({"type": "object", "properties": {"approved": {"type": "boolean"}, "by": {"default": "me"}}}))
    {
      "approved": null,
      "by": "me"
    }
    """
    properties = _resolved(expects, expects).get("properties") if expects is not None else None
    if not isinstance(properties, Mapping):
        return ""
    fields = {name: part.get("default") if isinstance(part, Mapping) else None for name, part in properties.items()}
    return msgspec.json.format(msgspec.json.encode(fields), indent=2).decode()


def wrong_signal(task: str, name: str, problem: str) -> InvalidArguments:
    error = InvalidArguments(task, f"signal {name!r} {problem}")
    error.error_code = WRONG_SIGNAL_CODE
    return error


def schema_of(kind: object) -> str | None:
    """Return the JSON Schema of a type; None if it has none."""
    pydantic = sys.modules.get("pydantic")
    try:
        if pydantic is not None and isinstance(kind, type) and issubclass(kind, pydantic.BaseModel):
            schema = {**kind.model_json_schema(), _LAX: True}  # type: ignore[attr-defined]
        else:
            schema = msgspec.json.schema(kind, schema_hook=lambda part: {"title": part.__name__})
    except Exception:  # pydantic has several; then only the handler checks the value
        return None
    return msgspec.json.encode(schema).decode()


def _resolved(schema: Schema, root: Schema) -> Schema:
    """Return what a reference refers to."""
    name, parts = schema.get("$ref"), root.get("$defs")
    if name is None:
        return schema
    part = parts.get(str(name).rpartition("/")[2]) if isinstance(parts, Mapping) else None
    return part if isinstance(part, Mapping) else {}


def _kind(schema: object, root: Schema, inside: Sequence[str]) -> object:
    """Return a type that takes what a schema allows, and perhaps more."""
    if not isinstance(schema, Mapping):
        return Any
    if reference := schema.get("$ref"):
        return Any if reference in inside else _kind(_resolved(schema, root), root, (*inside, reference))
    if "const" in schema or "enum" in schema:
        values = schema.get("enum", [schema.get("const")])
        return Literal[tuple(values)] if all(isinstance(one, str | int | None) for one in values) else Any
    if "anyOf" in schema:
        return Union[tuple(_kind(one, root, inside) for one in schema["anyOf"])]  # noqa: UP007
    kind = schema.get("type")
    if kind == "object":
        return _object(schema, root, inside)
    if kind == "array":
        return _bounded(list[_kind(schema.get("items"), root, inside)], schema)  # type: ignore[misc]
    if root.get(_LAX) and kind in ("integer", "number", "boolean"):
        return bool | int | float | str
    if kind == "string":
        known = {None: str} if root.get(_LAX) else _FORMATS
        is_plain = "contentEncoding" not in schema and schema.get("format") in known
        return _bounded(known[schema.get("format")], schema) if is_plain else Any
    return _bounded(_PLAIN[kind], schema) if kind in _PLAIN else Any


def _object(schema: Schema, root: Schema, inside: Sequence[str]) -> object:
    if "properties" not in schema:
        return dict[str, _kind(schema.get("additionalProperties"), root, inside)]  # type: ignore[misc]
    required, fields, names = schema.get("required", ()), [], {}
    for number, (name, part) in enumerate(schema["properties"].items()):
        kind, field = _kind(part, root, inside), f"field_{number}"  # a name may be no identifier
        names[field] = name
        fields.append((field, kind) if name in required else (field, Union[kind, msgspec.UnsetType], msgspec.UNSET))  # noqa: UP007
    forbids = schema.get("additionalProperties") is False
    return msgspec.defstruct("Expected", fields, rename=names, kw_only=True, forbid_unknown_fields=forbids)


def _bounded(kind: object, schema: Schema) -> object:
    bounds = {ours: schema[name] for name, ours in _BOUNDS.items() if name in schema}
    return Annotated[kind, msgspec.Meta(**bounds)] if bounds else kind

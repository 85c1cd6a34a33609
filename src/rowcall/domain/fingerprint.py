"""Fingerprints of declarations: which values fit the arguments of a task."""

from __future__ import annotations

import enum
import hashlib
import re
import sys

import msgspec

DIGITS = 8
MOST_REFUSALS = 20
"""A job lists the latest ones, in a column that takes 200 characters."""
_NOT_COMPARED = ("default", "default_factory")
_ADDRESS = re.compile(" at 0x[0-9a-f]+")


def fingerprint_of(kind: object) -> str:
    """Return a short text that changes with the values that fit a type, and is the same in every process."""
    outline = _outline(msgspec.inspect.type_info(kind), set())
    return hashlib.sha256(outline.encode()).hexdigest()[:DIGITS]


def _outline(value: object, seen: set[int]) -> str:
    """Return what `msgspec.inspect` says about a type, with the fields of each class once, and without defaults."""
    if isinstance(value, msgspec.Struct):
        if id(value) in seen:
            return _outline(getattr(value, "cls", None), seen)
        seen.add(id(value))
        names = [name for name in value.__struct_fields__ if name not in _NOT_COMPARED]
        fields = [f"{name}={_outline(getattr(value, name), seen)}" for name in names]
        return f"{type(value).__name__}({', '.join(fields)})"
    if isinstance(value, tuple):
        return f"({', '.join(_outline(part, seen) for part in value)})"
    if isinstance(value, enum.EnumType):
        return f"{value.__qualname__}{[member.value for member in list[enum.Enum](value)]}"
    if isinstance(value, type):  # without its module, which is __main__ in some processes
        return value.__qualname__ + _schema_of(value)
    return _ADDRESS.sub("", repr(value))


def _schema_of(kind: type) -> str:
    pydantic = sys.modules.get("pydantic")
    if pydantic is None or not issubclass(kind, pydantic.BaseModel):
        return ""
    try:
        return msgspec.json.encode(kind.model_json_schema(), order="deterministic").decode()  # type: ignore[attr-defined]
    except Exception:  # it has fields that JSON Schema cannot express
        return _ADDRESS.sub("", repr(kind.model_fields))  # type: ignore[attr-defined]

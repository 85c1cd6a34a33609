"""Jobs, attempts, errors and schedules as they may be shown: after the scrubber of their app, if it has one."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from rowcall.declare.failures import SCRUBBING_FAILED, Failures
from rowcall.domain.encryption import masked
from rowcall.domain.payload import RAW_KEY
from rowcall.domain.question import choices_of
from rowcall.domain.step import OpenWait, RecordedStep

V = TypeVar("V", bound=msgspec.Struct)

_TEXTS = {
    *("error_detail", "key", "progress_message", "sample", "traceback"),
    *("detail", "problem", "sentence", "limit", "target", "message", "advice"),
}
_VALUES = {"payload", "arguments", "result", "evidence", "question"}
_OBJECTS = {"payload", "arguments", "evidence"}


def scrubbed(failures: Failures, value: V) -> V:
    """Return the value with its texts, arguments and result scrubbed, and a note in place of what is encrypted."""
    value = _masked(value)
    if not failures.scrubs:
        return value
    changes: dict[str, object] = {}
    for name in value.__struct_fields__:
        content = getattr(value, name)
        if content is None:
            continue
        if name in _TEXTS or (name == "name" and isinstance(value, RecordedStep | OpenWait)):
            changes[name] = failures.scrub(content)
        elif name == "question":
            changes[name] = _scrubbed_question(failures, content)
        elif name in _VALUES:
            shown = _scrubbed_json(failures, content)
            changes[name] = {RAW_KEY: shown} if name in _OBJECTS and not isinstance(shown, dict) else shown
        elif name == "tags":
            changes[name] = tuple(map(failures.scrub, content))
    return msgspec.structs.replace(value, **changes)


def _scrubbed_question(failures: Failures, question: dict[str, object]) -> dict[str, object]:
    """Keep its form, and its choices apart: people answer what they see."""
    shown = {name: _scrubbed_leaves(failures, part) for name, part in question.items()}
    return {**shown, "choices": failures.shown_choices(choices)} if (choices := choices_of(question)) else shown


def scrubbed_value(failures: Failures, value: object) -> object:
    """Return a value that was read from JSON, scrubbed."""
    return _scrubbed_json(failures, value) if failures.scrubs else value


def _masked(value: V) -> V:
    changes: dict[str, object] = {}
    for name in value.__struct_fields__:
        if name in _TEXTS or name in _VALUES:
            found = getattr(value, name)
            if (said := masked(found)) is not found:
                changes[name] = said
    return msgspec.structs.replace(value, **changes) if changes else value


def _scrubbed_json(failures: Failures, value: object) -> object:
    """Scrub each text alone, for secrets with line breaks or quotes; then all as JSON, to find secrets by their name.

    If that is not JSON any more, return it as text.
    """
    try:
        encoded = failures.scrub(msgspec.json.encode(_scrubbed_leaves(failures, value)).decode())
    except RecursionError:
        return SCRUBBING_FAILED
    try:
        decoded: object = msgspec.json.decode(encoded)
    except msgspec.DecodeError:
        return encoded
    return decoded


def _scrubbed_leaves(failures: Failures, value: object) -> object:
    match value:
        case str():
            return failures.scrub(value)
        case dict():
            return {name: _scrubbed_leaves(failures, inner) for name, inner in value.items()}
        case list():
            return [_scrubbed_leaves(failures, inner) for inner in value]
        case _:
            return value

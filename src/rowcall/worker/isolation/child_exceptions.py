"""An exception from another process: described there, and rebuilt here as far as retry policies need it."""

from __future__ import annotations

import sys
import traceback
from types import ModuleType

import msgspec

from rowcall.base.times import time_of
from rowcall.declare.failures import Failures
from rowcall.declare.isolation import SCRIPT_MODULE
from rowcall.domain.error_codes import retried
from rowcall.domain.errors import Cancel, Control, Fail, Retry, Snooze
from rowcall.observe.shown_exceptions import drop_callers, frames_of
from rowcall.worker.isolation.messages import Failed, RaisedControl


def described(error: BaseException, failures: Failures, *, is_declared: bool) -> Failed:
    """In the child: return all that JSON can say about an exception."""
    shown = retried(drop_callers(error))
    return Failed(
        code=failures.code_of(shown),
        detail=_text(shown),
        traceback=_plain("".join(traceback.format_exception(shown))),
        kinds=[(kind.__module__, kind.__qualname__) for kind in type(error).__mro__[:-1]],
        arguments=[value for value in error.args if _is_json(value)] if all(map(_is_json, error.args)) else [],
        attributes={str(name): value for name, value in vars(error).items() if _is_json(value)},
        control=_control(error),
        is_declared=is_declared,
        out_of_memory=isinstance(error, MemoryError),
        frames=frames_of(error),
    )


def rebuilt(failed: Failed) -> BaseException:
    """In the worker: return an exception of the same class, with the same attributes, as far as they are known here."""
    match failed.control:
        case RaisedControl(kind="Retry", delay_seconds=delay, said=said, run_at_ms=at_ms, hold=hold):
            return (
                Retry(delay, said, hold=hold) if at_ms is None else Retry(None, said, run_at=time_of(at_ms), hold=hold)
            )
        case RaisedControl(kind="Snooze", delay_seconds=delay, run_at_ms=at_ms, hold=hold):
            return Snooze(delay, hold=hold) if at_ms is None else Snooze(run_at=time_of(at_ms), hold=hold)
        case RaisedControl(kind="Fail", code=code, said=said):
            return Fail(code, said)
        case RaisedControl(kind="Cancel", said=said):
            return Cancel(said)
        case RaisedControl():
            return Control(failed.detail)
    kind = _kind(failed.kinds)
    try:
        error: BaseException = kind.__new__(kind, *failed.arguments)
        error.args = tuple(failed.arguments) or (failed.detail,)
        vars(error).update(failed.attributes)
    except Exception:  # a class that needs other arguments
        return RuntimeError(failed.detail)
    return error


def _kind(names: list[tuple[str, str]]) -> type[BaseException]:
    """Return the class, or one of the same name below the first of its bases that this process has imported."""
    unknown: list[tuple[str, str]] = []
    kind: type[BaseException] = Exception
    for module, name in names:
        value: object = _module(module)
        for part in name.split("."):
            value = getattr(value, part, None)
        if isinstance(value, type) and issubclass(value, BaseException):
            kind = value
            break
        unknown.append((module, name))
    for module, name in reversed(unknown):
        kind = type(name.rpartition(".")[2], (kind,), {"__module__": module, "__qualname__": name})
    return kind


def _module(name: str) -> ModuleType | None:
    """Return the module that another process has imported by that name: this process's script has another name here."""
    main = sys.modules["__main__"]
    is_script = name == SCRIPT_MODULE or (main.__spec__ is not None and main.__spec__.name == name)
    return main if is_script else sys.modules.get(name)


def _control(error: BaseException) -> RaisedControl | None:
    match error:
        case Retry(delay_seconds=delay, run_at_ms=at_ms, reason=reason):
            said = _plain(error.said or reason)
            return RaisedControl("Retry", delay_seconds=delay, said=said, run_at_ms=at_ms, hold=error.hold)
        case Snooze(delay_seconds=delay, run_at_ms=at_ms):
            return RaisedControl("Snooze", delay_seconds=delay, run_at_ms=at_ms, hold=error.hold)
        case Fail(code=code, detail=detail):
            return RaisedControl("Fail", code=code, said=_plain(error.said or detail))
        case Cancel(reason=reason):
            return RaisedControl("Cancel", said=_plain(error.said or reason))
        case Control():
            return RaisedControl("")
    return None


def _text(error: BaseException) -> str:
    try:
        return _plain(str(error)) or type(error).__name__
    except Exception as broken:
        return f"str(error) raised {type(broken).__name__}"


def _plain(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def _is_json(value: object) -> bool:
    if not isinstance(value, str | int | float | bool | None | list | dict):
        return False
    try:
        msgspec.json.encode(value)
    except Exception:
        return False
    return True

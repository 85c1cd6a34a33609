"""Libraries that not everybody has."""

from __future__ import annotations

from rowcall.declare.tracing import Tracing
from rowcall.domain.errors import InvalidOption


def missing(option: str, extra: str, error: ModuleNotFoundError) -> InvalidOption:
    """What to say about a library that an option needs; an error of another kind is raised as it is."""
    package = {"metrics": "prometheus_client", "otel": "opentelemetry"}[extra]
    if (error.name or "").split(".")[0] != package:
        raise error
    return InvalidOption(option, f"needs {package}: pip install 'rowcall[{extra}]'")


def tracing_of(asked: object) -> Tracing | None:
    """What `Rowcall(tracing=…)` asks for."""
    if not isinstance(asked, bool):
        raise InvalidOption("tracing", f"wants True or False, not {asked!r}")
    if not asked:
        return None
    try:
        from rowcall.observe.tracing import OpenTelemetry
    except ModuleNotFoundError as error:
        raise missing("tracing", "otel", error) from None
    return OpenTelemetry()

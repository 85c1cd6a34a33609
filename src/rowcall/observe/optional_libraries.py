"""Optional libraries."""

from __future__ import annotations

from rowcall.declare.tracing import Tracing
from rowcall.domain.errors import InvalidOption


def missing(option: str, extra: str, error: ModuleNotFoundError) -> InvalidOption:
    """Return the error for a missing library that an option needs. Raise `error` if another module is missing."""
    package = {"mcp": "mcp", "metrics": "prometheus_client", "otel": "opentelemetry", "reload": "watchfiles"}[extra]
    if (error.name or "").split(".")[0] != package:
        raise error
    return InvalidOption(option, f"needs {package}: pip install 'rowcall[{extra}]'")


def tracing_of(asked: object) -> Tracing | None:
    """Return the tracing for `Rowcall(tracing=…)`."""
    if not isinstance(asked, bool):
        raise InvalidOption("tracing", f"must be True or False, got {asked!r}")
    if not asked:
        return None
    try:
        from rowcall.observe.tracing import OpenTelemetry
    except ModuleNotFoundError as error:
        raise missing("tracing", "otel", error) from None
    return OpenTelemetry()

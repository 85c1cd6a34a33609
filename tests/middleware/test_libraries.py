"""A library that is missing is named."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

from rowcall import InvalidOption
from rowcall.middleware import Middleware, close_django_connections, sentry, structlog_context


@pytest.mark.parametrize(
    ("make", "module", "package"),
    [
        (sentry, "sentry_sdk", "sentry-sdk"),
        (structlog_context, "structlog", "structlog"),
        (close_django_connections, "django", "django"),
    ],
)
def test_a_missing_library_is_named(
    make: Callable[[], Middleware], module: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name == module or name.startswith(f"{module}.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(InvalidOption, match=f"needs {package}: pip install {package}"):
        make()

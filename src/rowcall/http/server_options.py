"""The options of `jobs.asgi(...)` and `jobs.wsgi(...)`, checked. Imports no optional library."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Literal, Protocol, TypedDict, Unpack

import msgspec

from rowcall.domain.errors import InvalidOption, refuse_unknown
from rowcall.http.access import Access

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication
    from starlette.requests import Request
    from starlette.types import ASGIApp

    AsgiApp = ASGIApp
    WsgiApp = WSGIApplication
else:
    AsgiApp = WsgiApp = Callable[..., object]

SHORTEST_TOKEN = 16
_PLACEHOLDER = re.compile(r"\{.*?\}")


class AppResponse(Protocol):
    """A response of Starlette or FastAPI, of Flask, or of Django."""

    @property
    def status_code(self) -> int: ...


if TYPE_CHECKING:
    Authorize = Callable[[Request], Access | AppResponse | Awaitable[Access | AppResponse | None] | None]
    """Returns who asks, None to refuse, or a response of the app."""
else:
    Authorize = Callable[..., object]


class HttpOptions(TypedDict, total=False):
    """The options of `jobs.asgi(...)` and `jobs.wsgi(...)`, which the docstring of `asgi` explains."""

    token: str | Mapping[str, str] | None
    read_token: str | Mapping[str, str] | None
    authorize: Authorize | None
    login_url: str | None
    hosts: Iterable[str] | None
    origins: Iterable[str] | None
    trace_url: str | None


class HttpSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The options after they were checked. `tokens` has what each secret allows."""

    tokens: dict[str, Access] = msgspec.field(default_factory=dict)
    authorize: Authorize | None = None
    login_url: str | None = None
    hosts: frozenset[str] | None = None
    origins: frozenset[str] = frozenset()
    trace_url: str | None = None
    streams: bool = True
    """A stream takes a thread of a WSGI server for minutes, so there are none there."""

    @property
    def is_open(self) -> bool:
        """Return whether no one has to sign in: then only this machine may ask."""
        return not self.tokens and self.authorize is None

    def trace_link(self, trace_id: str | None, job_id: int) -> str | None:
        """Return the address of a trace, if there is one and `trace_url` says where."""
        if self.trace_url is None or trace_id is None:
            return None
        return self.trace_url.replace("{trace_id}", trace_id).replace("{job_id}", str(job_id))


def settings(**options: Unpack[HttpOptions]) -> HttpSettings:
    """Return the options, or raise `InvalidOption` for the first that is wrong."""
    refuse_unknown(options, HttpOptions.__annotations__)
    authorize, hosts = options.get("authorize"), options.get("hosts")
    if authorize is not None and not callable(authorize):
        raise InvalidOption("authorize", f"must be a function of a request, got {authorize!r}")
    writing = _tokens("token", options.get("token"), "operate")
    reading = _tokens("read_token", options.get("read_token"), "read")
    if writing.keys() & reading.keys():
        raise InvalidOption("read_token", "must differ from token")
    return HttpSettings(
        tokens={**writing, **reading},
        authorize=authorize,
        login_url=_login(options.get("login_url"), authorize),
        hosts=None if hosts is None else frozenset(name.lower() for name in _texts("hosts", hosts)),
        trace_url=_template(options.get("trace_url")),
        origins=frozenset(origin.lower() for origin in _texts("origins", options.get("origins") or ())),
    )


def _tokens(option: str, value: object, role: Literal["read", "operate"]) -> dict[str, Access]:
    if value is None:
        return {}
    named = value if isinstance(value, Mapping) else {f"{role} token": value}
    tokens = {}
    for name, secret in named.items():
        if not isinstance(secret, str) or len(secret) < SHORTEST_TOKEN or not secret.isascii():
            raise InvalidOption(option, f"must be a secret of {SHORTEST_TOKEN} or more ASCII characters")
        tokens[secret] = Access(str(name), role)
    return tokens


def _login(url: object, authorize: object) -> str | None:
    if url is None:
        return None
    if not isinstance(url, str) or not url.startswith(("/", "http://", "https://")) or url.startswith("//"):
        raise InvalidOption("login_url", f"must be a path or a web address, got {url!r}")
    if authorize is None:
        raise InvalidOption("login_url", "needs authorize=…, which knows who has signed in there")
    return url


def _template(url: object) -> str | None:
    """Check where traces are. A browser must not run the link as a script, so it has to be a web address."""
    if url is None:
        return None
    example = "https://traces.example.com/{trace_id}"
    if not isinstance(url, str) or not url.startswith(("http://", "https://")) or "{trace_id}" not in url:
        raise InvalidOption(
            "trace_url", f"must be a web address with {{trace_id}} in it, such as {example!r}, got {url!r}"
        )
    unknown = set(_PLACEHOLDER.findall(url)) - {"{trace_id}", "{job_id}"}
    if unknown:
        raise InvalidOption("trace_url", f"cannot have {min(unknown)} in it, only {{trace_id}} and {{job_id}}")
    return url


def _texts(option: str, value: Iterable[str]) -> list[str]:
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise InvalidOption(option, f"must be a list of texts, got {value!r}")
    texts = list(value)
    for one in texts:
        if not isinstance(one, str) or not one:
            raise InvalidOption(option, f"must be a list of texts, got {one!r} in it")
    return texts

"""Push delivery: targets, and the options of `Rowcall(push=…)`."""

import ipaddress
import ssl
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from urllib.parse import SplitResult, urlsplit

import msgspec

from rowcall.base.addresses import Address, Network, address_of, is_public, is_within
from rowcall.domain.checks import whole
from rowcall.domain.errors import InvalidOption, PushRefused, seconds_of
from rowcall.domain.limits import Limit, TaskLimit, checked_limits
from rowcall.domain.push_signatures import DEFAULT_TOLERANCE_SECONDS, checked_secrets
from rowcall.domain.value import OptionsMeta, Value

LONGEST_TARGET = 2000
SHORTEST_TIMEOUT_SECONDS = 0.01
DEFAULT_TIMEOUT_SECONDS = 30.0
DEFAULT_OPEN_SECONDS = 3600.0
DEFAULT_LARGEST_ANSWER = 1024 * 1024

_PORTS = {"http": 80, "https": 443}
_bytes = whole(0, 1024**3, "a number of bytes")


class LeftOpen(Exception):
    """The target has accepted the job, and calls back: its attempt no longer belongs to the worker."""


class PushedJob(Value, frozen=True, kw_only=True):
    """What a target receives: the body of the request. `token` settles the attempt in a callback.

    `callback_url` is where the HTTP API takes callbacks, if `PushOptions` say that.
    """

    id: int
    task: str
    arguments: dict[str, object]
    queue: str
    attempt: int
    max_attempts: int
    created_at: datetime
    tags: tuple[str, ...] = ()
    token: str
    callback_url: str | None = None


_pushed = msgspec.json.Decoder(PushedJob)


def pushed_from(body: bytes | bytearray) -> PushedJob:
    """Return the job in a body whose signature was verified."""
    try:
        return _pushed.decode(body)
    except (msgspec.DecodeError, RecursionError) as error:
        raise PushRefused(f"the body is not a job: {error}") from error


class PushOptions(Value, frozen=True, kw_only=True, metaclass=OptionsMeta):
    """How workers deliver jobs to targets: `Rowcall(push=PushOptions(secrets=["whsec_…"]))`.

    Options:
        secrets: `whsec_` and 24 to 64 bytes in base64. All of them sign and verify, so that they can be rotated.
        timeout: how many seconds a delivery may take, unless its task or job has a timeout; default 30.
        open_for: how many seconds a job stays open that its target answered with 202; default one hour.
        callback_url: where targets reach `/api/push` of the HTTP API, such as `"https://ops.example/jobs/api/push"`.
        limit: a `Limit`, or several; each counts the jobs of each host separately.
        allow_private: deliver also to addresses of this machine and of private networks: true for all of them, or a
            list of networks such as `["10.0.0.0/8"]`; default false.
        allow_http: deliver without TLS to other machines; default false.
        largest_answer: how many bytes of an answer are read as the result of a job; default 1 MiB.
        tolerance: by how many seconds the clocks of worker and receiver may differ; default 300.
        ssl_context: an `ssl.SSLContext`, for other certificate authorities than those of this machine.
    """

    secrets: Sequence[str]
    timeout: float | timedelta = DEFAULT_TIMEOUT_SECONDS
    open_for: float | timedelta = DEFAULT_OPEN_SECONDS
    callback_url: str | None = None
    limit: Limit | Sequence[Limit] = ()
    allow_private: bool | Iterable[str] = False
    allow_http: bool = False
    largest_answer: int = DEFAULT_LARGEST_ANSWER
    tolerance: float | timedelta = DEFAULT_TOLERANCE_SECONDS
    ssl_context: ssl.SSLContext | None = None

    _hidden = ("secrets", "ssl_context")

    def __post_init__(self) -> None:
        def put(name: str, value: object) -> None:
            msgspec.structs.force_setattr(self, name, value)

        put("secrets", checked_secrets(self.secrets))
        put("timeout", seconds_of("timeout", self.timeout, SHORTEST_TIMEOUT_SECONDS))
        put("open_for", seconds_of("open_for", self.open_for, 1))
        put("tolerance", seconds_of("tolerance", self.tolerance, 1))
        put("limit", checked_limits(self.limit))
        _bytes("largest_answer", self.largest_answer)
        for limit in self.limits:
            if limit.by is not None:
                raise InvalidOption("limit", f"{limit.name!r} counts by host; remove by={limit.by!r}")
            if limit.breaker is not None or limit.units is not None:
                raise InvalidOption("limit", f"{limit.name!r}: a limit of hosts has no breaker or units; tasks have")
        if not isinstance(self.allow_private, bool):
            put("allow_private", tuple(str(network) for network in _networks(self.allow_private)))
        if not isinstance(self.allow_http, bool):
            raise InvalidOption("allow_http", f"must be true or false, got {self.allow_http!r}")
        if self.ssl_context is not None and not isinstance(self.ssl_context, ssl.SSLContext):
            raise InvalidOption("ssl_context", f"must be an ssl.SSLContext, got {self.ssl_context!r}")
        if self.callback_url is not None:
            put("callback_url", checked_target("callback_url", self.callback_url).rstrip("/"))

    def __repr__(self) -> str:
        return f"PushOptions({', '.join(f'{name}={getattr(self, name)!r}' for name in self.keys())})"

    @property
    def limits(self) -> tuple[Limit, ...]:
        return self.limit  # type: ignore[return-value]

    def host_limits(self, target: str) -> tuple[TaskLimit, ...]:
        """Return the limits of jobs for this target: those of its host."""
        return tuple(TaskLimit(limit, host=PushTarget.of(target).host) for limit in self.limits)

    def refusal(self, address: Address) -> str | None:
        """Return why nothing is delivered to an address, or None."""
        allowed = self.allow_private
        if allowed is True or is_public(address) or (allowed and is_within(address, _networks(allowed))):
            return None
        return f"{address} is not an address of the internet; see PushOptions(allow_private=…)"

    def problem_of(self, target: str) -> str | None:
        """Return why nothing can be delivered to a target, as far as its URL says, or None."""
        parsed = PushTarget.of(target)
        if parsed.scheme != "https" and not (self.allow_http or parsed.is_loopback):
            return f"must begin with https://, got {target!r}; PushOptions(allow_http=True) allows http"
        refused = None if parsed.address is None else self.refusal(parsed.address)
        return None if refused is None else f"leads to a refused address: {refused}"


def _networks(value: object) -> Iterable[Network]:
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise InvalidOption("allow_private", f"must be true, false or a list of networks, got {value!r}")
    for one in value:
        try:
            yield ipaddress.ip_network(one)
        except ValueError as error:
            raise InvalidOption("allow_private", f"must have networks such as '10.0.0.0/8': {error}") from None


class PushTarget(msgspec.Struct, frozen=True):
    """The parts of a URL that matter to a delivery."""

    scheme: str
    host: str
    port: int
    path: str

    @classmethod
    def of(cls, url: str) -> "PushTarget":
        """
        >>> PushTarget.of("https://app.example/jobs?a=1")
        PushTarget(scheme='https', host='app.example', port=443, path='/jobs?a=1')
        """
        parts = urlsplit(url)
        path = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
        return cls(parts.scheme, parts.hostname or "", parts.port or _PORTS[parts.scheme], path)

    @property
    def address(self) -> Address | None:
        """Return the address, if the URL names one instead of a host."""
        return address_of(self.host)

    @property
    def is_loopback(self) -> bool:
        if (address := self.address) is not None:
            return address.is_loopback
        return self.host == "localhost" or self.host.endswith(".localhost")

    @property
    def authority(self) -> str:
        """Return the value of the header `Host`."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"


def checked_target(option: str, value: object) -> str:
    """Return a URL that jobs can be delivered to, or raise `InvalidOption`."""
    if not isinstance(value, str):
        raise InvalidOption(option, f"must be a URL such as 'https://app.example/jobs', got {value!r}")
    if len(value) > LONGEST_TARGET:
        raise InvalidOption(option, f"must have at most {LONGEST_TARGET} characters, got {len(value)}")
    if not value.isascii() or not value.isprintable() or " " in value:
        raise InvalidOption(option, "must have printable ASCII characters only; write é as %C3%A9, a host as xn--…")
    try:
        parts = urlsplit(value)
        problem = _problem_of(parts, parts.port)
    except ValueError as error:
        problem = f"is not a URL: {error}"
    if problem is not None:
        raise InvalidOption(option, problem)
    return value


def _problem_of(parts: SplitResult, port: int | None) -> str | None:
    if parts.username is not None or parts.password is not None:  # not shown: it may be a password
        return "must have no user and password: requests are signed, and the URL is stored with the job"
    if parts.scheme not in _PORTS:
        return f"must begin with https://, got {parts.geturl()!r}"
    if not parts.hostname or port == 0:
        return f"must name a host, such as https://app.example/jobs, got {parts.geturl()!r}"
    return f"must have no fragment, got {parts.geturl()!r}" if parts.fragment else None

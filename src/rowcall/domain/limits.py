"""Limits: how many jobs run at the same time, and how many start within a period. Pure: counts and times come in."""

import hashlib
import inspect
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated

import msgspec

from rowcall.base.text import decoded, duration
from rowcall.domain.checks import name_problem, whole
from rowcall.domain.errors import InvalidOption, seconds_of
from rowcall.domain.value import OptionsMeta, Value

LONGEST_NAME = 100
LONGEST_VALUE = 200
LONGEST_KEY = 1000
MOST, HIGHEST_RATE = 1_000_000, 1_000_000_000
MOST_OUTCOMES = 1000
SHORTEST_PERIOD_SECONDS = 0.01
LATEST_BEGIN_MS = 250
HELD_PREFIX = "limit:"
HELD_BY_ORDER = "order:"
HELD_BY_OTHER_NAME = "order:+"
"""Of a job in order that waits for one under another name of its task; the key of that one comes after it."""


if TYPE_CHECKING:
    Units = int | str | Callable[..., int]
else:
    Units = object  # msgspec reads no union with a function in it


class Breaker(Value, frozen=True, metaclass=OptionsMeta):
    """Holds a limit when too many of its attempts fail: `Breaker(failures=0.5, of=20, pause=30)`.

    It opens when at least that share of the last `of` attempts has failed: no job starts for `pause` seconds. Then one
    job may try. If it succeeds, the breaker closes; if it fails, the next pause begins.
    """

    failures: float = 0.5
    of: int = 20
    pause: float | timedelta = 30

    def __post_init__(self) -> None:
        share: object = self.failures
        if isinstance(share, bool) or not isinstance(share, int | float) or not 0 < share <= 1:
            raise InvalidOption("failures", f"must be a share of attempts, more than 0 and at most 1, got {share!r}")
        whole(1, MOST_OUTCOMES)("of", self.of)
        msgspec.structs.force_setattr(self, "pause", seconds_of("pause", self.pause, SHORTEST_PERIOD_SECONDS))

    @property
    def pause_ms(self) -> int:
        return round(float(self.pause) * 1000)  # type: ignore[arg-type]


class Limit(Value, frozen=True, metaclass=OptionsMeta):
    """At most `concurrency` running jobs, at most `rate` starts in any `per` seconds, or both.

    All jobs whose limit has the same name share it. With `by`, each value of that argument is counted separately. A
    `breaker` holds the limit while its attempts fail. With `units`, the rate counts units, not starts: a number, the
    name of an argument, or a function whose parameters are names of arguments.

    >>> Limit("stripe", concurrency=3, by="customer_id")
    Limit(name='stripe', concurrency=3, rate=None, per=None, by='customer_id', breaker=None, units=None)
    >>> Limit("api", rate=100, per=timedelta(minutes=1)).per
    60.0
    """

    name: str
    concurrency: int | None = None
    rate: int | None = None
    per: float | timedelta | None = None
    by: str | None = None
    breaker: Breaker | None = None
    units: Units | None = None

    def __post_init__(self) -> None:
        if self.breaker is not None and not isinstance(self.breaker, Breaker):
            raise InvalidOption("limit", f"{self.name!r}: breaker must be a Breaker(…), got {self.breaker!r}")
        if problem := name_problem(self.name, LONGEST_NAME):
            raise InvalidOption("limit", f"the name {problem}")
        if self.by is not None and (not isinstance(self.by, str) or not self.by.isidentifier()):
            raise InvalidOption("limit", f"{self.name!r}: by must be the name of an argument, got {self.by!r}")
        try:
            for option in ("concurrency", "rate"):
                if (number := getattr(self, option)) is not None:
                    whole(1, MOST if option == "concurrency" else HIGHEST_RATE)(option, number)
            if isinstance(self.units, int):
                whole(1, self.rate or HIGHEST_RATE)("units", self.units)
            if self.per is not None:
                msgspec.structs.force_setattr(self, "per", seconds_of("per", self.per, SHORTEST_PERIOD_SECONDS))
        except InvalidOption as error:
            raise InvalidOption("limit", f"{self.name!r}: {error}") from error
        if self.concurrency is None and self.rate is None:
            raise InvalidOption("limit", f"{self.name!r} limits nothing; add concurrency=…, or rate=… and per=…")
        if (self.rate is None) is not (self.per is None):
            raise InvalidOption(
                "limit", f"{self.name!r}: rate and per must be given together, such as rate=100, per=60"
            )

        if self.units is not None and self.rate is None:
            raise InvalidOption("limit", f"{self.name!r}: units need rate=… and per=…, which say how many may be used")
        if not (self.units is None or isinstance(self.units, int | str) or callable(self.units)):
            raise InvalidOption("limit", f"{self.name!r}: units must be a number, an argument's name or a function")

    @property
    def unit_arguments(self) -> tuple[str, ...]:
        """The names of the arguments that its units depend on."""
        if isinstance(self.units, str):
            return (self.units,)
        return tuple(inspect.signature(self.units).parameters) if callable(self.units) else ()

    @property
    def numbers(self) -> "Numbers":
        return Numbers(self.concurrency, self.rate, None if self.per is None else round(float(self.per) * 1000))  # type: ignore[arg-type]


class LimitKey(Value, frozen=True, kw_only=True):
    """What one value of `by` uses of a limit; None is a limit without `by`.

    `waiting` are the jobs that it holds, the first of them due `since`. `held_until`: no job of it starts before,
    because a handler asked for that with `hold=`, or its breaker is open. `is_open`: whether its breaker is, also while
    one job tries.
    """

    value: object = None
    running: int = 0
    started: int = 0
    waiting: int = 0
    since: datetime | None = None
    held_until: datetime | None = None
    is_open: bool = False


class LimitInfo(Value, frozen=True, kw_only=True):
    """A limit as it was when it was read: the numbers that count, the declared ones, and what is used.

    `changed_at` and `changed_by` say who last called `set_limit` or `reset_limit`; `is_set` is whether its numbers
    replace the declared ones. `running` jobs of all keys; `started` counts the starts within the period, `waiting` the
    jobs that it holds, the first of them due `since`. `by_key` has the keys with the most waiting jobs. Of a limit with
    units, `started` counts these.

    `held_until`: no job of it, or of one key, starts before. The job with the id `held_by` asked for that, and
    `held_reason` says why; or the breaker is open. `is_open`: whether any key's breaker is, also while one job tries.
    """

    name: str
    concurrency: int | None = None
    rate: int | None = None
    per: float | None = None
    declared_concurrency: int | None = None
    declared_rate: int | None = None
    declared_per: float | None = None
    is_set: bool = False
    changed_at: datetime | None = None
    changed_by: str | None = None
    running: int = 0
    started: int = 0
    waiting: int = 0
    since: datetime | None = None
    held_until: datetime | None = None
    held_by: int | None = None
    held_reason: str | None = None
    is_open: bool = False
    by_key: list[LimitKey] = msgspec.field(default_factory=list)


class LimitChange(Value, frozen=True, kw_only=True):
    """An entry of the history of limits: what happened to one, when, and who did it."""

    at: datetime
    event: str
    limit: str
    actor: str | None = None
    detail: str | None = None


class UsedUnits(msgspec.Struct, frozen=True):
    """How many units an attempt has used, how many it had reserved, and for how long they count."""

    used: int
    reserved: int
    span_ms: int


NOTHING_USED: Mapping[str, UsedUnits] = MappingProxyType({})


class LimitNote(msgspec.Struct, frozen=True):
    """What the end of an attempt says to its limits: hold the one with that name, for so long or until then; whether it
    failed, to these breakers by the names of their limits; and how many units it used instead of those it reserved.
    """

    hold: str | None = None
    hold_ms: int = 0
    until_ms: int | None = None
    why: str = ""
    failed: bool = False
    breakers: Mapping[str, Breaker] = MappingProxyType({})
    used: Mapping[str, UsedUnits] = NOTHING_USED

    def without_text(self) -> "LimitNote":
        """Return the note without what a handler has written."""
        return msgspec.structs.replace(self, why="")


class Numbers(msgspec.Struct, frozen=True, array_like=True):
    """The numbers of a limit, as they are stored."""

    concurrency: int | None = None
    rate: int | None = None
    per_ms: int | None = None

    @property
    def stored(self) -> tuple[int | None, int | None, int | None]:
        return self.concurrency, self.rate, self.per_ms

    @property
    def per(self) -> float | None:
        return None if self.per_ms is None else self.per_ms / 1000

    @property
    def span_ms(self) -> int:
        """Return how long a start counts: longer than the period, as a handler may begin a little after its claim."""
        per_ms = self.per_ms or 0
        return per_ms + min(LATEST_BEGIN_MS, per_ms // 4)

    def strictest(self, other: "Numbers") -> "Numbers":
        """Return the lower numbers of two declarations of one limit.

        >>> Numbers(5, 10, 1000).strictest(Numbers(1, 300, 60_000))
        Numbers(concurrency=1, rate=300, per_ms=60000)
        """
        allowed = [number for number in (self.concurrency, other.concurrency) if number is not None]
        rates = [numbers for numbers in (self, other) if numbers.rate is not None]
        slowest = min(rates, key=lambda numbers: (numbers.rate or 0) / (numbers.per_ms or 1), default=self)
        return Numbers(min(allowed, default=None), slowest.rate, slowest.per_ms)


_Whole = Annotated[int, msgspec.Meta(ge=1, le=1000 * 10**10)]


class JobLimit(msgspec.Struct, frozen=True, array_like=True):
    """A limit in the row of a job."""

    key: Annotated[str, msgspec.Meta(max_length=LONGEST_KEY)]
    name: str
    concurrency: _Whole | None = None
    rate: _Whole | None = None
    per_ms: _Whole | None = None
    units: Annotated[int, msgspec.Meta(ge=0)] | None = None

    @property
    def numbers(self) -> Numbers:
        return Numbers(self.concurrency, self.rate, self.per_ms)

    @property
    def stored(self) -> tuple[object, ...]:
        fields = self.key, self.name, *self.numbers.stored
        return fields if self.units is None else (*fields, self.units)


class TaskLimit(msgspec.Struct, frozen=True):
    """A limit of a task. `missing` is the value of the argument `by` for a job that does not have it, and `defaults`
    those of the arguments that its units depend on.

    With a `host`, it counts the jobs that are delivered to that host.
    """

    limit: Limit
    missing: object = None
    host: str | None = None
    defaults: Mapping[str, object] = MappingProxyType({})

    @property
    def depends_on_arguments(self) -> bool:
        return self.limit.by is not None or isinstance(self.limit.units, str) or callable(self.limit.units)

    def for_job(self, payload: Mapping[str, object] | None) -> JobLimit:
        """Return the limit of a job with that payload; None is an unknown payload."""
        limit, numbers = self.limit, self.limit.numbers
        if self.host is not None:
            key = key_of(limit.name, self.host)
        elif limit.by is None or payload is None:
            key = key_of(limit.name)
        else:
            key = key_of(limit.name, payload.get(limit.by, self.missing))
        return JobLimit(key, limit.name, numbers.concurrency, numbers.rate, numbers.per_ms, self._units_of(payload))

    def _units_of(self, payload: Mapping[str, object] | None) -> int | None:
        """Return how many units the job needs, or raise `InvalidOption`."""
        limit, numbers = self.limit, self.limit.numbers
        if limit.units is None or isinstance(limit.units, int):
            return limit.units
        if payload is None:
            return 1
        names = self.defaults or limit.unit_arguments
        values = {name: payload.get(name, self.defaults.get(name)) for name in names}
        units: object = values[limit.units] if isinstance(limit.units, str) else limit.units(**values)
        if isinstance(units, bool) or not isinstance(units, int) or units < 0:
            source = f"argument {limit.units!r}" if isinstance(limit.units, str) else "function units="
            raise InvalidOption(
                "limit", f"{limit.name!r}: units must be a whole number, got {units!r} from the {source}"
            )
        if units > (numbers.rate or 0):
            allowed = f"{numbers.rate:,} in {duration(numbers.per)}"
            raise InvalidOption(
                "limit", f"{limit.name!r}: the job needs {units:,} units, and all may use {allowed}; make it smaller"
            )
        return units


_NO_VALUE = object()
_entries = msgspec.json.Decoder(list[JobLimit])
_parts = msgspec.json.Decoder(list[object])
_sorting = msgspec.json.Encoder(order="sorted")


def key_of(name: str | None, value: object = _NO_VALUE) -> str:
    """Return the key by which a limit counts: a JSON array, so that two limits never have the same key.

    >>> key_of("api"), key_of("stripe", 42), key_of("stripe", "42")
    ('["api"]', '["stripe",42]', '["stripe","42"]')
    """
    if value is _NO_VALUE:
        return _sorting.encode([name]).decode()
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # 1 and 1.0 are the same number in JSON
    written = _sorting.encode(value)
    if len(written) > LONGEST_VALUE:
        return _sorting.encode([name, None, hashlib.sha256(written).hexdigest()]).decode()
    return _sorting.encode([name, value]).decode()


def name_of(key: str) -> str:
    """Return the name of the limit that a key belongs to, or the key itself if it is malformed."""
    parts = decoded(_parts, key, [])
    return str(parts[0]) if parts else key


def value_of(key: str) -> object:
    """Return the value that a key counts, or None for a limit without `by`.

    >>> value_of('["stripe",42]'), value_of('["api"]')
    (42, None)
    """
    parts = decoded(_parts, key, [])
    return parts[-1] if len(parts) > 1 else None


def numbers_text(numbers: Numbers) -> str:
    """
    >>> numbers_text(Numbers(5, 100, 60_000)), numbers_text(Numbers())
    ('5 at once, 100 in 1 min', 'the numbers of its jobs')
    """
    parts = [] if numbers.concurrency is None else [f"{numbers.concurrency:,} at once"]
    if numbers.rate is not None and numbers.per is not None:
        parts.append(f"{numbers.rate:,} in {duration(numbers.per)}")
    return ", ".join(parts) or "the numbers of its jobs"


def renamed(key: str, names: Iterable[str]) -> list[str]:
    """Return the keys with the same value and other names.

    >>> renamed('["old",7]', ["new", "old"])
    ['["new",7]']
    """
    name, *value = decoded(_parts, key, []) or [None]
    return [_sorting.encode([other, *value]).decode() for other in names if other != name and name is not None]


def held_by(key: str) -> str:
    """Return the value of the column `held` of a job that waits for this limit."""
    return key if key.startswith(HELD_BY_ORDER) else HELD_PREFIX + key


def job_limits_to_text(entries: Iterable[JobLimit]) -> str:
    return msgspec.json.encode([entry.stored for entry in entries]).decode()


def job_limits_from_text(text: str) -> list[JobLimit] | None:
    """Return the entries, or None if the text has another form. Raises `RecursionError` if it is nested too deeply."""
    try:
        entries = _entries.decode(text)
    except msgspec.MsgspecError:
        return None
    has_nul = "\\u0000" in text and any("\0" in entry.key + entry.name for entry in entries)
    return None if has_nul else entries


def checked_limits(value: object) -> tuple[Limit, ...]:
    """Return the limits in `limit=`, which takes one or a list."""
    if isinstance(value, Limit):
        return (value,)
    if not isinstance(value, list | tuple) or not all(isinstance(one, Limit) for one in value):
        raise InvalidOption("limit", f'must be a Limit, such as Limit("api", concurrency=3), or a list, got {value!r}')
    names = [limit.name for limit in value]
    if len(set(names)) < len(names):
        raise InvalidOption("limit", f"must have different names, got {', '.join(map(repr, names))}")
    return tuple(value)

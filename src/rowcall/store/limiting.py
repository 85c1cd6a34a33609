"""What every database must be able to say of limits, and what the plans build on.

The contract
------------
* **Slots.** A job that runs under a limit has a row in the table of slots for each of its keys. It counts while its job
  is running under the same lease. The slot of a worker also counts until the worker frees it, after its handler has
  ended, or is gone: a handler that goes on after its attempt was settled counts. So nothing can leak by a crash.
* **Keys.** Whoever gives out places or starts of a key has locked it until the commit, and has counted after that.
* **Held.** A job whose key is full is held under that key and is not ready. Whoever frees a place makes as many ready
  again. A claimer holds jobs only while it keeps the slots of the key from being freed (`steady_slots`), so whoever
  frees one comes later, and sees them.
* **Starts.** Under a limit of rate each start is written down, numbered within its key in the order of the times.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple, Protocol

from rowcall.domain.limits import Numbers
from rowcall.store.statement import Plan


class KeyState(NamedTuple):
    """What was published about the limit of a key, and how many run under it."""

    published: Numbers | None
    used: int


class Starts(NamedTuple):
    """The last start of a key, and those that have to be over before the next ones, in order: (number, time)."""

    last: int
    last_at_ms: int
    before: dict[int, int]


class Held(NamedTuple):
    """A key under which jobs are held, and the limits in the row of the first of them."""

    key: str
    limits: str | None


class Limiting(Protocol):
    @property
    def most_keys(self) -> int:
        """How many keys one transaction may lock."""

    def lock_limits(self, keys: Sequence[str]) -> Plan[set[str]]:
        """Those of the keys that are now ours until the transaction ends; it never waits."""

    def key_states(self, keys: Mapping[str, str], now_ms: int | None) -> Plan[tuple[int, dict[str, KeyState]]]:
        """The time, and the states of keys, which are given with the names of their limits."""

    def steady_slots(self, used: Mapping[str, int], ours: Collection[int]) -> Plan[Mapping[str, int]]:
        """How many of the slots of these keys stay taken until the transaction ends, but for those of our own jobs."""

    def take_slots(self, slots: Sequence[tuple[str, int, int]], worker: str | None) -> Plan[None]:
        """Keys, ids and leases. `worker` is None for jobs that are claimed by hand."""

    def free_slots(self, attempts: Sequence[tuple[int, int | None]]) -> Plan[list[str]]:
        """Free the slots of attempts (ids and leases); returns the key of each.

        Without a lease, only those that no worker holds: who ends a job from outside does not know whether its
        handler still runs.
        """

    def slots_of_worker(self, worker: str) -> Plan[list[tuple[int, int]]]:
        """Return the attempts (ids and leases) whose slots a worker holds."""

    def stale_keys(self, limit: int) -> Plan[list[str]]:
        """Keys with slots that no longer count, as their jobs were ended by somebody who knew nothing of them."""

    def drop_stale(self, keys: Sequence[str]) -> Plan[int]:
        """Delete those slots of keys that are ours: only then nobody takes the same place meanwhile."""

    def hold(self, jobs: Mapping[int, str]) -> Plan[int]:
        """Hold those of the jobs that are ready under the key given for each; gives how many."""

    def unhold(self, places: Mapping[str, int]) -> Plan[int]:
        """Make up to so many jobs ready that are held under each key, the first in turn; gives how many in all."""

    def recent_starts(self, asked: Sequence[tuple[str, int, int]]) -> Plan[dict[str, Starts]]:
        """Of keys, given with their rate and how many starts are wanted."""

    def record_starts(self, starts: Sequence[tuple[str, int, int, int]]) -> Plan[None]:
        """Keys, numbers, times, and until when to remember them."""

    def forget_starts(self, numbers: Mapping[str, int]) -> Plan[None]:
        """Those of each key up to a number."""

    def rewind_starts(self, key: str, at_ms: int) -> Plan[None]:
        """The clock was set back: starts of the future become starts of now."""

    def tidy_starts(self, limit: int, now_ms: int | None) -> Plan[int]: ...
    def put_gates(self, opens_at_ms: Mapping[str, int]) -> Plan[None]:
        """When those that are held under each key are to be looked at again."""

    def drop_gates(self, keys: Sequence[str]) -> Plan[None]: ...
    def due_gates(self, limit: int, now_ms: int | None) -> Plan[list[str]]: ...
    def held_keys(self, after: str, limit: int) -> Plan[list[Held]]:
        """The keys under which jobs are held, in order, by as many searches as there are keys."""

    def first_held(self, keys: Sequence[str]) -> Plan[list[Held]]:
        """Those of the keys under which jobs are held."""

    def quotas(self) -> Plan[dict[str, Numbers]]: ...
    def put_quotas(self, quotas: Mapping[str, Numbers], now_ms: int | None) -> Plan[None]: ...

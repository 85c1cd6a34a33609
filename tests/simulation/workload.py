"""What producers, people and readers do in a world: a list of calls with their times, made from the seed."""

from __future__ import annotations

import contextlib
import itertools
import random
from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple

from rowcall import (
    DuplicateJob,
    InvalidOption,
    Job,
    JobNotFound,
    LeaseLost,
    Rowcall,
    StillNeeded,
    StoreUnavailable,
    StreamReader,
    WrongState,
)
from rowcall.domain.job import Chain
from tests.crash.storm import terms
from tests.simulation import app
from tests.simulation.app import witness
from tests.simulation.primitives import scheduler

REFUSED = (JobNotFound, WrongState, DuplicateJob, StillNeeded, LeaseLost, StoreUnavailable, InvalidOption)
NAMES = ("a", "b")
ON_FAILURE: tuple[Literal["fail", "run", "wait"], ...] = ("fail", "run", "wait")


class Operation(NamedTuple):
    """A call, by the name of a method of `Caller`."""

    number: int
    at: float
    name: str

    def __str__(self) -> str:
        return f"{self.number} at {self.at:.2f} s: {self.name}"


PRODUCING = {
    "plain": 6,
    "plain_async": 4,
    "many": 2,
    "once": 2,
    "expiring": 1,
    "later": 2,
    "spot": 5,
    "late": 2,
    "paced": 3,
    "batch": 2,
    "group": 3,
    "chain": 3,
    "flow": 3,
    "after": 2,
    "keyed": 4,
    "replaced": 2,
    "in_order": 5,
    "durable": 4,
    "waiting": 2,
    "waiting_twice": 2,
    "asking": 2,
    "fused": 3,
    "metered": 3,
    "streaming": 3,
    "parent": 4,
    "parent_async": 3,
}
STEERING = {
    "cancel": 5,
    "cancel_running": 3,
    "retry": 5,
    "retry_step": 2,
    "delete": 2,
    "reschedule": 2,
    "set_priority": 1,
    "pause": 2,
    "resume": 3,
    "set_limit": 2,
    "complete_chain": 1,
    "signal": 3,
    "look": 6,
}


def workload(chance: random.Random, seconds: float) -> list[Operation]:
    """Return what happens in a world: a few kinds of jobs, so that they meet."""
    kinds = chance.sample(sorted(PRODUCING), chance.randint(2, 6))
    producing = chance.choices(kinds, [PRODUCING[kind] for kind in kinds], k=chance.randint(6, 16))
    steering = chance.choices(sorted(STEERING), [STEERING[name] for name in sorted(STEERING)], k=chance.randint(0, 8))
    names = [*producing, *steering]
    times = sorted(chance.choice((0.0, chance.uniform(0, seconds))) for _ in names)
    chance.shuffle(names)
    return [Operation(number, at, name) for number, (at, name) in enumerate(zip(times, names, strict=True))]


@contextlib.contextmanager
def followed(reader: StreamReader) -> Iterator[StreamReader]:
    """Close a reader; one of a process that is killed closes nothing, also when the interpreter collects it."""
    try:
        with contextlib.suppress(*REFUSED):
            yield reader
        reader.close()
    finally:
        del reader._source


class Caller:
    """Does one operation after the other, in its process."""

    def __init__(self, jobs: Rowcall, seed: str) -> None:
        self._jobs = jobs
        self._seed = seed
        self._chance = random.Random()
        self._number = 0

    def call(self, operation: Operation) -> None:
        """Whatever is refused is refused as documented."""
        self._chance = random.Random(f"{self._seed} {operation.number}")
        self._number = 100 * operation.number
        call: Callable[[], None] = getattr(self, operation.name)
        with contextlib.suppress(*REFUSED):
            call()

    def _note(self, *enqueued: Job | Chain) -> None:
        for one in enqueued:
            witness.write("enqueued", one.id)

    def _enqueue(self, task: str, **arguments: object) -> Job:
        options = self._chance.choice(({}, {}, {"priority": 3}, {"tags": ["storm"]}, {"queue": "side"}))
        self._number += 1
        job = self._jobs.enqueue(task, {"number": self._number, **arguments}, **options)
        self._note(job)
        return job

    # enqueueing

    def plain(self) -> None:
        self._enqueue("plain")

    def plain_async(self) -> None:
        self._enqueue("plain_async")

    def many(self) -> None:
        rows = [{"number": self._number + n} for n in range(self._chance.randint(2, 5))]
        self._note(*app.plain.enqueue_many(rows))

    def once(self) -> None:
        self._enqueue("once")

    def expiring(self) -> None:
        self._enqueue("expiring")

    def later(self) -> None:
        self._note(self._jobs.enqueue("plain", {"number": self._number}, delay=self._chance.choice((0.1, 2.0))))

    def spot(self) -> None:
        for n in range(self._chance.randint(1, 4)):
            self._enqueue("spot", spot=n % 2 if self._chance.random() < 0.3 else 0)

    def late(self) -> None:
        for _ in range(2):
            self._enqueue("late")

    def paced(self) -> None:
        for _ in range(self._chance.randint(2, 6)):
            self._enqueue("paced", lane=0)

    def batch(self) -> None:
        rows = [{"item": self._number + n} for n in range(self._chance.randint(1, 5))]
        self._note(*app.batch.enqueue_many(rows))

    def group(self) -> None:
        """Fill a named batch, perhaps also later, and seal it."""
        group = self._jobs.batch("group", on_finish="finished", on_success="finished")
        for _ in range(self._chance.randint(0, 2)):
            tasks = self._chance.choices((app.plain, app.once, app.step), k=self._chance.randint(1, 3))
            self._note(*group.add(*(task.bind(self._number + n) for n, task in enumerate(tasks))))
            scheduler().sleep(self._chance.choice((0.0, 0.3)))
        group.seal()

    def chain(self) -> None:
        last = app.step.bind(self._number + 9, self._chance.choice((0, 1)))
        steps = [app.step.bind(self._number + n) for n in range(self._chance.randint(1, 2))]
        self._note(self._jobs.start_chain([*steps, last]))

    def flow(self) -> None:
        flow = self._jobs.flow()
        first = flow.add(app.plain.bind(self._number))
        on_failure = self._chance.choice(ON_FAILURE)
        middle = [flow.add(app.plain.bind(self._number + n), after=first) for n in (1, 2)]
        flow.add(app.join.using(on_blocker_failure=on_failure).bind(self._number + 3, len(middle)), after=middle)
        self._note(*flow.enqueue())

    def after(self) -> None:
        blockers = self._jobs.list(limit=20).jobs
        chosen = self._chance.sample(blockers, min(2, len(blockers)))
        join = app.join.using(on_blocker_failure=self._chance.choice(ON_FAILURE))
        flow = self._jobs.flow()
        flow.add(join.bind(self._number, len(chosen)), after=chosen)
        self._note(*flow.enqueue())

    def keyed(self) -> None:
        for name in self._chance.choices(NAMES, k=2):
            self._enqueue("keyed", name=name)

    def replaced(self) -> None:
        self._enqueue("keyed_or_replace", name=self._chance.choice(NAMES))

    def in_order(self) -> None:
        for _ in range(self._chance.randint(1, 3)):
            account = self._chance.choice(NAMES)
            job = self._enqueue("in_order", account=account)
            witness.write(f"ordered:{account}", job.id)

    def durable(self) -> None:
        self._enqueue("durable")

    def waiting(self) -> None:
        job = self._enqueue("waiting")
        if self._chance.random() < 0.7:
            scheduler().sleep(self._chance.choice((0.0, 0.3)))
            self._jobs.signal(job, "go", self._number)

    def waiting_twice(self) -> None:
        job = self._enqueue("waiting_twice")
        for key in ("a", "a"):
            scheduler().sleep(self._chance.choice((0.0, 0.5)))
            self._jobs.signal(job, "go", self._number, key=key)

    def asking(self) -> None:
        """Two people answer: the handler has what was accepted first."""
        job = self._enqueue("asking")
        for answer in ("yes", "no"):
            scheduler().sleep(self._chance.choice((0.0, 0.3)))
            self._jobs.signal(job, "answer", answer)
            witness.write(f"accepted:{answer}", job.id)

    def fused(self) -> None:
        for _ in range(self._chance.randint(2, 5)):
            self._enqueue("fused")

    def metered(self) -> None:
        for _ in range(self._chance.randint(2, 5)):
            self._enqueue("metered", units=self._chance.randint(1, 6))

    def streaming(self) -> None:
        """Follow a stream while it is written, sometimes in two parts."""
        self._number += 1
        job = self._jobs.enqueue("streaming", {"number": self._number})
        self._note(job)
        if self._chance.random() < 0.3:
            return
        with followed(self._jobs.stream(job)) as reader:
            for value in itertools.islice(reader, self._chance.choice((1, 2, 100))):
                witness.write(f"read:{reader.part}:{value}", job.id)
            position = reader.position
        with followed(self._jobs.stream(job, after=position)) as reader:
            for value in reader:
                witness.write(f"read:{reader.part}:{value}", job.id)

    def parent(self) -> None:
        self._enqueue("parent")

    def parent_async(self) -> None:
        job = self._enqueue("parent_async")
        if self._chance.random() < 0.4:
            scheduler().sleep(self._chance.choice((0.0, 0.3, 1.0)))
            self._jobs.signal(job, "go", self._number)

    # steering

    def _any(self, status: str | None = None) -> Job:
        found = self._jobs.list(limit=60, status=status).jobs
        if not found:
            raise JobNotFound(0)
        return self._chance.choice(found)

    def cancel(self) -> None:
        self._jobs.cancel(self._any().id)

    def cancel_running(self) -> None:
        self._jobs.cancel(self._any("running").id, "people")

    def retry(self) -> None:
        self._jobs.retry(self._any(self._chance.choice(("failed", "cancelled", "succeeded"))).id)

    def retry_step(self) -> None:
        """Begin again at the last step that is recorded."""
        job = self._any(self._chance.choice(("failed", "cancelled", "succeeded")))
        steps = self._jobs.steps(job.id)
        if steps:
            self._jobs.retry(job.id, from_step=steps[-1].name)

    def delete(self) -> None:
        job = self._any()
        witness.write("deleting", job.id)
        self._jobs.delete(job.id)

    def reschedule(self) -> None:
        self._jobs.reschedule(self._any(self._chance.choice(("pending", "scheduled", "blocked"))).id, delay=0.3)

    def set_priority(self) -> None:
        self._jobs.set_priority(self._any("pending").id, self._chance.randint(-3, 3))

    def pause(self) -> None:
        if self._chance.random() < 0.5:
            self._jobs.pause("side")
        else:
            self._jobs.pause(task="plain")

    def resume(self) -> None:
        self._jobs.resume("side")
        self._jobs.resume(task="plain")

    def set_limit(self) -> None:
        """Lower a limit, or let its declared numbers count again."""
        limit = self._chance.choice((terms.SPOTS, terms.PACED, app.FUSED))
        if self._chance.random() < 0.4:
            self._jobs.reset_limit(limit.name)
        elif limit.rate is not None:
            self._jobs.set_limit(limit.name, rate=self._chance.randint(1, limit.rate))
        else:
            self._jobs.set_limit(limit.name, concurrency=self._chance.randint(1, limit.concurrency or 1))

    def complete_chain(self) -> None:
        chains = self._jobs.list_chains(limit=5).chains
        if chains:
            chain = self._chance.choice(chains)
            witness.write("completing", chain.id)
            self._jobs.complete_chain(chain.id, "from outside")

    def signal(self) -> None:
        self._jobs.signal(self._any("scheduled").id, "other", 1)

    def look(self) -> None:
        """What a dashboard reads."""
        self._jobs.stats()
        self._jobs.stuck()
        self._jobs.retries()
        self._jobs.top_errors()
        job = self._any()
        self._jobs.timeline(job.id)
        self._jobs.attempts(job.id)

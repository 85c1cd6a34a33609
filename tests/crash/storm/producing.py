"""A producer: enqueues in every way there is, and notes the id of each job once the call has returned."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable
from typing import Literal

from rowcall import DuplicateJob, InvalidOption, Job, StoreUnavailable
from rowcall.domain.errors import DataRefused
from rowcall.domain.job import Chain
from rowcall.operations.enqueue import Bound
from tests.crash.storm import tasks
from tests.crash.storm.effects import DATABASE_AWAY, Undone, effect, effect_async, inserted, transaction
from tests.crash.storm.tasks import jobs, notes
from tests.crash.storm.terms import MAX_ATTEMPTS, MOST_UNITS, NEVER

REMEMBERED = 30
NAMES = ("a", "b", "c")
QUEUES = ("default", "side", "hand")
ON_FAILURE: tuple[Literal["fail", "run", "wait"], ...] = ("fail", "run", "wait")


class Producer:
    def __init__(self, seed: str) -> None:
        self._chance = random.Random(seed)
        self._earlier: list[Job | Chain] = []
        self._ways: dict[Callable[[], None], int] = {
            self._one: 8,
            self._many: 2,
            self._at_once_async: 1,
            self._large: 2,
            self._limited: 9,
            self._batch: 1,
            self._group: 2,
            self._effect: 4,
            self._chain: 3,
            self._flow: 3,
            self._after: 3,
            self._keyed: 6,
            self._plain_sql: 2,
            self._own_transaction: 3,
            self._block: 2,
        }

    def enqueue_something(self) -> None:
        """Whatever is refused is refused as documented; whatever fails, fails because the database is away."""
        way = self._chance.choices(list(self._ways), list(self._ways.values()))[0]
        try:
            way()
        except DataRefused:
            raise
        except (StoreUnavailable, DuplicateJob, *DATABASE_AWAY):
            pass

    def _note(self, *enqueued: Job | Chain) -> None:
        for one in enqueued:
            notes.write("enqueued", one.id)
        self._earlier = [*self._earlier, *enqueued][-REMEMBERED:]

    def _some(self, most: int) -> range:
        return range(self._chance.randint(1, most))

    # alone

    def _one(self) -> None:
        task = self._chance.choice(("plain", "plain_async", "once", "dying", "expiring"))
        options = self._chance.choice(({}, {"delay": 0.1}, {"priority": 9}, {"tags": ["storm"]}, {"queue": "side"}))
        self._note(jobs.enqueue(task, {}, **options))

    def _many(self) -> None:
        queue = self._chance.choice(QUEUES)
        self._note(*tasks.plain.using(queue=queue, tags=["storm"]).enqueue_many([{}] * self._chance.randint(2, 12)))

    def _at_once_async(self) -> None:
        async def all_of_them() -> list[Job]:
            return await asyncio.gather(*(tasks.plain_async.aenqueue() for _ in self._some(5)))

        self._note(*asyncio.run(all_of_them()))

    def _large(self) -> None:
        length = self._chance.choice((10, 3_000, 6_000))
        self._note(tasks.large.enqueue(self._chance.choice("xyz") * length, length))

    def _limited(self) -> None:
        match self._chance.randrange(6):
            case 0:
                queue = self._chance.choice(QUEUES)
                self._note(*tasks.spot.using(queue=queue).enqueue_many([{"spot": n % 2} for n in self._some(5)]))
            case 1:
                self._note(jobs.enqueue("isolated", priority=self._chance.randint(0, 3)))
            case 2:
                self._note(*tasks.late.enqueue_many([{}] * 2))
            case 3:
                self._note(*(tasks.paced.enqueue(self._chance.randrange(2)) for _ in self._some(3)))
            case 4:
                size = self._chance.randint(1, MOST_UNITS)
                self._note(*(tasks.weighed.enqueue(self._chance.randrange(2), size) for _ in self._some(3)))
            case 5:
                self._note(*tasks.guarded.enqueue_many([{}] * self._chance.randint(1, 3)))

    def _batch(self) -> None:
        self._note(*tasks.batch.enqueue_many([{"item": number} for number in self._some(9)]))

    def _group(self) -> None:
        """Jobs of a named batch, sealed before or after they run."""
        group = jobs.batch("storm", on_finish=tasks.batch_over)
        self._note(*group.add([tasks.once.bind(), effect.bind(), tasks.step.bind(1)]))
        self._note(*group.add([tasks.plain.bind() for _ in self._some(4)]))
        group.seal()

    def _effect(self) -> None:
        self._note(
            effect.enqueue(self._chance.choice((0, 0, 1))) if self._chance.random() < 0.5 else effect_async.enqueue()
        )

    # together

    def _call(self) -> Bound:
        using = self._chance.choice((tasks.plain, tasks.once)).using(on_blocker_failure=self._chance.choice(ON_FAILURE))
        return using.bind()

    def _steps(self) -> list[Bound]:
        last = self._chance.choice((tasks.step.bind(2), tasks.step.bind(), effect.bind(1)))
        return [*(tasks.step.bind() for _ in self._some(2)), last]

    def _chain(self) -> None:
        self._note(jobs.start_chain(self._steps()))

    def _flow(self) -> None:
        flow = jobs.flow()
        first = flow.add(effect.bind())
        middle = [flow.add(self._call(), after=first) for _ in self._some(4)]
        middle.append(flow.add_chain(self._steps(), after=self._chance.sample(middle, 1)))
        last = tasks.join.using(on_blocker_failure=self._chance.choice(ON_FAILURE)).bind(len(middle))
        flow.add(last, after=middle)
        self._note(*flow.enqueue())

    def _after(self) -> None:
        after = self._chance.sample(self._earlier, min(len(self._earlier), self._chance.randint(1, 3)))
        # `duplicate` jobs may be there twice
        after = list({one.id: one for one in after}.values())
        with contextlib.suppress(InvalidOption):  # one of them was deleted in between
            using = tasks.join.using(after=after, on_blocker_failure=self._chance.choice(ON_FAILURE))
            self._note(using.enqueue(len(after)))

    def _keyed(self) -> None:
        task = self._chance.choice(
            (
                tasks.keyed,
                tasks.keyed_or_raise,
                tasks.keyed_or_replace,
                tasks.keyed_for_good,
                tasks.keyed_for_a_while,
            )
        )
        if self._chance.random() < 0.6:
            self._note(task.enqueue(self._chance.choice(NAMES)))
        else:
            self._note(*task.enqueue_many([{"name": name} for name in NAMES]))

    # in other transactions

    def _plain_sql(self) -> None:
        task, payload = self._chance.choice((("plain", "{}"), ("spot", '{"spot": 0}'), ("paced", '{"lane": 1}')))
        with transaction() as connection:
            job_id = inserted(
                connection,
                "insert into rowcall_job (type, payload, queue, max_attempts)"
                f" values ('{task}', '{payload}', '{self._chance.choice(QUEUES)}', {MAX_ATTEMPTS})",
            )
        notes.write("enqueued", job_id)

    def _own_transaction(self) -> None:
        """Rows of the app, and jobs that are there if and only if those are."""
        if self._chance.random() < 0.3:
            with contextlib.suppress(Undone), transaction() as connection:
                jobs.enqueue(NEVER, connection=connection)
                tasks.join.using(after=self._earlier[-1:], connection=connection, queue=NEVER).enqueue(1)
                raise Undone
            return
        made: list[Job] = []
        with transaction() as connection:
            connection.execute("insert into storm_order values (1)")
            made.append(tasks.plain.using(connection=connection).enqueue())
            made.append(tasks.large.using(connection=connection).enqueue("o" * 4_000, 4_000))
            made.append(tasks.keyed.using(connection=connection).enqueue("own"))
        self._note(*made)

    def _block(self) -> None:
        with contextlib.suppress(Undone):
            with jobs.transaction():
                if self._chance.random() < 0.4:
                    jobs.enqueue(NEVER)
                    raise Undone
                made = [effect.enqueue(), tasks.plain.enqueue(), tasks.spot.enqueue(1)]
            self._note(*made)

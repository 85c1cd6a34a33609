"""Random histories, made through the real queue and with plain SQL; after some steps every answer is compared."""

from __future__ import annotations

import itertools
from abc import abstractmethod
from collections import Counter, defaultdict
from datetime import datetime, timedelta

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from rowcall import Backoff, Cancel, Context, Fail, Job, LeaseLost, Retention, Retry, Rowcall, Snooze, Status
from rowcall.actions import JobFilter
from rowcall.app import queue_of
from rowcall.base.times import milliseconds_of
from rowcall.declare.option_table import EnqueueOptions
from rowcall.domain.retention import Rules
from rowcall.operations.effects import Write
from rowcall.operations.events import stream
from rowcall.store.counts import tallies
from rowcall.store.counts.pruning import prune_history
from rowcall.store.queries.results import REGISTER_WAITER
from rowcall.testing.fake_clock import FakeClock
from tests.conformance.worker_parts import StoreWorker
from tests.observe import slow
from tests.observe.plain_sql import JobRow, PlainDatabase, attempts_of, jobs_of
from tests.observe.slow import Ended, Wanted

CLOCK_BEGINS = FakeClock().now()
QUEUES, TYPES, TAGS = ("mail", "media", "Ärger"), ("obey", "obey_too", "stranger"), ("red", "blue")
DEEDS = ("return", "raise", "fail", "retry", "snooze", "cancel")
CODES = ("A:B", "A:C", "X.y-1:Z_9")
PICK = st.integers(0, 30)
KEEP = st.sampled_from([None, 0, 60, timedelta(hours=1), timedelta(days=2)])
RETENTION = st.builds(Retention, succeeded=KEEP, failed=KEEP, cancelled=KEEP)
SOME_TAGS = st.lists(st.sampled_from(TAGS), max_size=2, unique=True)
WANTED = list(
    itertools.starmap(
        Wanted,
        itertools.product([None, *(status.value for status in Status)], (None, *QUEUES), (None, *TYPES), (None, *TAGS)),
    )
)
PAGES_A_CHECK, JOBS_A_CHECK = 12, 15
CLAIM = """
    insert into rowcall_claim (job_id, lease, holder, attempt, worker, claimed_at, started_at)
    select id, 1, 7, attempt + 1, 'ghost', created_at, created_at from rowcall_job where id = {}"""
# each alone, and each with each
CHOICES: list[JobFilter] = [
    {"status": ["failed", "scheduled", "running"]},
    {"queue": "mail"},
    {"type": "obey"},
    {"tag": "red"},
    {"worker": "hand"},
    {"error_code": "A:*"},
    {"error_code": "*"},
    {"payload": {"deed": "return"}},
    {"created_after": CLOCK_BEGINS + timedelta(seconds=60)},
    {"created_before": CLOCK_BEGINS + timedelta(seconds=60)},
    {"finished_after": CLOCK_BEGINS + timedelta(milliseconds=20)},
    {"finished_before": CLOCK_BEGINS + timedelta(seconds=60)},
]
CHOSEN: list[JobFilter] = [*CHOICES, *(first | second for first, second in itertools.combinations(CHOICES, 2))]
FILTERS_A_CHECK = 4
OVERWRITTEN = ("HEARTBEAT", "PROGRESS")
Line = tuple[str, datetime, str | None]
BULK = [chosen for chosen in CHOSEN if "status" not in chosen]


class HistoryMachine(RuleBasedStateMachine):
    """A subclass opens `database`."""

    database: PlainDatabase
    jobs: Rowcall
    retention_rules: Rules

    def __init__(self) -> None:
        super().__init__()
        self.clock = FakeClock(monotonic=1000.0)
        self.claimed: list[Job] = []
        self.waits: dict[tuple[int, int], int] = {}
        self.known: dict[int, tuple[str, str]] = {}
        self.tags: dict[int, set[str]] = {}
        self.ended: Counter[tuple[int, Ended]] = Counter()
        self.seen_events: dict[int | None, Counter[Line]] = defaultdict(Counter)
        self.plain: set[int] = set()
        self.lost_for_good: set[tuple[int, int | None]] = set()
        self.steps = 0
        self.wanted = itertools.cycle(WANTED)
        self.chosen = itertools.cycle(CHOSEN)

    @abstractmethod
    def open_database(self) -> PlainDatabase:
        """Return a separate queue for each history."""

    @initialize(
        common=RETENTION, queues=st.dictionaries(st.sampled_from(QUEUES), RETENTION, max_size=1), of_task=RETENTION
    )
    def begin(self, common: Retention, queues: dict[str, Retention], of_task: Retention) -> None:
        common = Retention(common.succeeded, common.failed, common.cancelled, queues)
        self.database = self.open_database()
        self.jobs = Rowcall(self.database.url, clock=self.clock, durability="normal", retention=common)
        self.jobs.migrate()
        self.retention_rules = Rules(common, {"obey_too": of_task})
        self._declare(of_task)
        self.events = stream(queue_of(self.jobs), None, None, None, None)
        queue_of(self.jobs).run(self.events.connect())
        self._begin_with_some_of_each()

    def _begin_with_some_of_each(self) -> None:
        """Whatever is left out of a history, it is about something."""
        for number, (deed, queue) in enumerate(itertools.product(DEEDS, QUEUES)):
            self._step()
            tags = [TAGS[number % 2]]
            payload = {"deed": deed, "code": CODES[number % 3]}
            job = self.jobs.enqueue(TYPES[number % 2], payload, queue=queue, tags=tags, max_attempts=1 + number % 3)
            self.tags[job.id] = set(tags)
        self.jobs.drain(concurrency=2)
        for status in Status:
            self.insert_with_plain_sql("stranger", "mail", status, 1, None, None, False, 0, 1)

    def _declare(self, of_task: Retention) -> None:
        def obey(ctx: Context, deed: str, code: str) -> None:
            self._note_wait(ctx.job)
            match deed:
                case "raise":
                    raise ValueError(code)
                case "fail":
                    raise Fail(code, f"detail of {ctx.job.id}")
                case "retry":
                    raise Retry(delay=35)
                case "snooze":
                    raise Snooze(delay=45)
                case "cancel":
                    raise Cancel("enough")

        retry = Backoff.constant(30)
        self.obey = self.jobs.task(name="obey", retry=retry)(obey)
        self.jobs.task(name="obey_too", retry=retry, retention=of_task)(obey)

    def teardown(self) -> None:
        if hasattr(self, "jobs"):
            self.jobs.close()
            self.database.close()

    # coming in

    @rule(
        kind=st.sampled_from(TYPES),
        queue=st.sampled_from(QUEUES),
        priority=st.integers(-1, 1),
        deed=st.sampled_from(DEEDS),
        code=st.sampled_from(CODES),
        delay=st.sampled_from([0, 0, 20, 4000, -20, -4000]),
        expires_in=st.sampled_from([None, None, 10, 100]),
        max_attempts=st.integers(1, 3),
        tags=SOME_TAGS,
        many=st.sampled_from([1, 1, 3]),
    )
    def enqueue(
        self,
        kind: str,
        queue: str,
        priority: int,
        deed: str,
        code: str,
        delay: int,
        expires_in: int | None,
        max_attempts: int,
        tags: list[str],
        many: int,
    ) -> None:
        self._step()
        payload = {"deed": deed, "code": code}
        options = EnqueueOptions(queue=queue, priority=priority, max_attempts=max_attempts, tags=tags)
        if delay < 0:
            options["run_at"] = self.clock.now() + timedelta(seconds=delay)
        else:
            options["delay"] = delay
        if expires_in is not None:
            options["expires_in"] = expires_in
        for _ in range(many):
            job = self.jobs.enqueue(kind, payload, **options)
            self.tags[job.id] = set(tags)

    @rule(count=st.integers(1, 6), queue=st.sampled_from(QUEUES), deed=st.sampled_from(DEEDS), tags=SOME_TAGS)
    def enqueue_many(self, count: int, queue: str, deed: str, tags: list[str]) -> None:
        self._step()
        for job in self.obey.using(queue=queue, tags=tags).enqueue_many(
            [{"deed": deed, "code": CODES[number % 3]} for number in range(count)]
        ):
            self.tags[job.id] = set(tags)

    @rule(
        kind=st.sampled_from(TYPES),
        queue=st.sampled_from(QUEUES),
        status=st.sampled_from([*Status]),
        attempt=st.sampled_from([0, 1, 2, 99, 100, 101, 5000]),
        code=st.sampled_from([None, *CODES, "ÄÖ: 'x'"]),
        finished_ago=st.sampled_from([None, 0, 30, 5000, 100_000]),
        held=st.booleans(),
        due_ago=st.sampled_from([0, 0, 50, 100_000]),
        many=st.integers(1, 3),
    )
    def insert_with_plain_sql(
        self,
        kind: str,
        queue: str,
        status: Status,
        attempt: int,
        code: str | None,
        finished_ago: int | None,
        held: bool,
        due_ago: int,
        many: int,
    ) -> None:
        self._step()
        columns: dict[str, str | int | None] = {
            "type": kind,
            "queue": queue,
            "status": "pending" if status is Status.RUNNING else status.value,
            "attempt": attempt,
            "max_attempts": attempt + 2,
            "payload": '{"deed": "return", "code": ""}',
            "run_at": self.now_ms - due_ago * 1000,
            "created_at": self.now_ms,
        }
        if status in slow.FINISHED:
            columns["error_code"] = code
            columns["error_detail"] = code
        if finished_ago is not None:  # even of jobs that cannot have finished yet
            columns["finished_at"] = self.now_ms - finished_ago * 1000
        if status is Status.PENDING and held:
            columns["held"] = "for a reason"
        for _ in range(many):
            job_id = self.database.insert(**columns)
            self.plain.add(job_id)
            if status is Status.RUNNING:
                self.database.ask(f"delete from rowcall_ready where id = {job_id}")
                self.database.ask(CLAIM.format(job_id))
                self.waits[job_id, self.now_ms] = 0

    # time

    @rule(seconds=st.sampled_from([1, 7, 50, 61, 3600, 90_000, 400_000]))
    def time_passes(self, seconds: int) -> None:
        self._step()
        self.clock.advance(seconds)
        queue_of(self.jobs).run(self.events._register(REGISTER_WAITER))  # the reader does not come too late

    # work

    @rule()
    def drain(self) -> None:
        self._step()
        self.jobs.drain(concurrency=2)

    @rule(limit=st.integers(1, 4), lease=st.sampled_from([10, 10_000]))
    def claim(self, limit: int, lease: int) -> None:
        self._step()
        for job in self.jobs.claim("hand", limit=limit, lease=lease):
            self._note_wait(job)
            self.claimed.append(job)

    @precondition(lambda self: self.claimed)
    @rule(pick=PICK, way=st.sampled_from(["complete", "fail", "release", "heartbeat", "forget"]))
    def end_by_hand(self, pick: int, way: str) -> None:
        self._step()
        job = self.claimed[pick % len(self.claimed)]
        if way != "heartbeat":
            self.claimed.remove(job)
        try:
            match way:
                case "complete":
                    self.jobs.complete(job, {"ok": True})
                case "fail":
                    self.jobs.fail(job, CODES[pick % 3], f"by hand {job.id}")
                case "release":
                    self.jobs.release(job)
                case "heartbeat":
                    self.jobs.heartbeat(job)
        except LeaseLost:
            pass

    # steering

    @rule(pick=PICK, way=st.sampled_from(["cancel", "retry", "delete", "delete with plain sql"]))
    def steer(self, pick: int, way: str) -> None:
        self._step()
        rows = [row for row in jobs_of(self.database) if _may(way, row)]
        if not rows:
            return
        row = rows[pick % len(rows)]
        match way:
            case "cancel":
                self.jobs.cancel(row.id, "no need")
                self.ended[row.id, Ended(self.now_ms, row.queue, row.type, "cancelled")] += 1
            case "retry":
                self.jobs.retry(row.id)
            case "delete":
                self.jobs.delete(row.id)
            case _:
                self.database.ask(f"delete from rowcall_job where id = {row.id}")

    @rule(pick=st.integers(0, len(BULK) - 1), way=st.sampled_from(["set_priority", "reschedule", "retry", "delete"]))
    def steer_all_that_match(self, pick: int, way: str) -> None:
        self._step()
        slow.check_bulk(self.jobs, BULK[pick], way, self.steps)

    @rule(queue=st.sampled_from(QUEUES), task=st.sampled_from(TYPES), by_task=st.booleans(), resume=st.booleans())
    def pause_or_resume(self, queue: str, task: str, by_task: bool, resume: bool) -> None:
        self._step()
        change = self.jobs.resume if resume else self.jobs.pause
        change(task=task) if by_task else change(queue)

    # housekeeping

    @rule(everything=st.booleans(), rounds=st.integers(1, 3))
    def fold(self, everything: bool, rounds: int) -> None:
        self._step()
        for _ in range(rounds):
            queue_of(self.jobs).run(Write(lambda: tallies.fold(queue_of(self.jobs).dialect, everything=everything)))

    @rule()
    def thin_out(self) -> None:
        self._step()
        while queue_of(self.jobs).run(Write(lambda: tallies.fold_history(queue_of(self.jobs).dialect))):
            pass
        while queue_of(self.jobs).run(Write(lambda: prune_history(queue_of(self.jobs).dialect))):
            pass

    @rule()
    def prune(self) -> None:
        self._step()
        before = jobs_of(self.database)
        doomed = slow.doomed_of(before, self.retention_rules, self.now_ms)
        pruned = self.jobs.prune()
        assert pruned.by_status == {name: sum(row.status == name for row in doomed) for name in slow.FINISHED}
        gone = {row.id for row in doomed}
        assert [row.id for row in jobs_of(self.database)] == [row.id for row in before if row.id not in gone]
        check_no_orphans(self.database)

    # answers

    @rule()
    def ask_everything(self) -> None:
        self._step()
        self.check()

    def check(self) -> None:
        rows = jobs_of(self.database)
        ended = [one for (_, one), count in self.ended.items() for _ in range(count)]
        slow.check_counts(self.jobs, rows, self.now_ms)
        slow.check_parts(self.jobs)
        for window_seconds in (60, 300, 3600, 7200, 90_000, 7 * slow.DAY, 30 * slow.DAY):
            slow.check_pace(self.jobs, rows, ended, self.now_ms, window_seconds)
            slow.check_activity(self.jobs, rows, ended, self.now_ms, window_seconds)
        for window_seconds in (60, 90_000, 30 * slow.DAY):
            slow.check_failing(self.jobs, rows, ended, self.now_ms, window_seconds)
        slow.check_stuck(self.jobs, rows, self.now_ms)
        slow.check_retries(self.jobs, rows)
        slow.check_errors(self.jobs, rows)
        self._check_why(rows)
        slow.check_retention(self.jobs, rows, self.retention_rules, self.now_ms)
        for wanted in itertools.islice(self.wanted, PAGES_A_CHECK):
            slow.check_page(self.jobs, rows, self.tags, wanted, 1 + self.steps % 7)
        everything = self.jobs.list(limit=1000).jobs
        assert len(everything) == len(rows)
        for chosen in itertools.islice(self.chosen, FILTERS_A_CHECK):
            slow.check_filter(self.jobs, everything, chosen, 15 + self.steps % 7)
        self._check_events(rows)

    def _check_events(self, rows: list[JobRow]) -> None:
        """Every line of every timeline came once, as far as rows still show it."""
        queue_of(self.jobs).run(self.events._look())
        while self.events._has_more:
            queue_of(self.jobs).run(self.events._look())
        while self.events._events:
            event = self.events._events.popleft()
            self.seen_events[event.job_id][event.event, event.at, event.detail] += 1
        for row in rows:
            if row.id in self.plain:
                continue
            lines = Counter((one.event, one.at, one.detail) for one in self.jobs.timeline(row.id))
            seen = self.seen_events[row.id]
            assert {line[0] for line in lines - seen} <= {"HELD", *OVERWRITTEN}, (row.id, lines - seen)
            assert {line[0] for line in seen - lines} <= {"CLAIMED", "STARTED", *OVERWRITTEN}, (row.id, seen - lines)
            assert all(count == 1 for line, count in seen.items() if line not in lines), (row.id, seen)

    def _check_why(self, rows: list[JobRow]) -> None:
        StoreWorker(self.jobs, "looker", tasks=dict.fromkeys(TYPES[:2], ""))
        step = 1 + len(rows) // JOBS_A_CHECK
        slow.check_why(self.jobs, rows, self.now_ms, TYPES[:2], set(range(self.steps % step, len(rows), step)))
        self.database.ask("delete from rowcall_worker where name = 'looker'")

    @invariant()
    def gather(self) -> None:
        """What has ended so far, before it is deleted or forgotten."""
        if not hasattr(self, "jobs"):
            return
        rows = jobs_of(self.database)
        for row in rows:
            self.known[row.id] = (row.queue, row.type)
        self.lost_for_good |= {
            (row.id, row.finished_at) for row in rows if row.status == "failed" and row.error_code == "WORKER:LOST"
        }
        found: Counter[tuple[int, Ended]] = Counter()
        for attempt in attempts_of(self.database):
            outcome = slow.outcome_of(attempt)
            if outcome == "lost" and (attempt.job_id, attempt.finished_at) in self.lost_for_good:
                outcome = "failed"
            wait = self.waits.get((attempt.job_id, attempt.claimed_at))
            assert attempt.finished_at is not None
            run = attempt.finished_at - (attempt.started_at or attempt.claimed_at)
            waited, ran = (None, None) if attempt.status == "lost" else (wait, run)
            queue, task = self.known[attempt.job_id]
            ended = Ended(attempt.finished_at, queue, task, outcome, waited, ran, attempt.error_code or "")
            found[attempt.job_id, ended] += 1
        for row in rows:
            if row.status == "cancelled" and row.error_code == "EXPIRED:NOT_STARTED":
                assert row.finished_at is not None
                found[row.id, Ended(row.finished_at, row.queue, row.type, "expired")] += 1
        self.ended |= found

    @property
    def now_ms(self) -> int:
        return milliseconds_of(self.clock.now())

    def _step(self) -> None:
        self.steps += 1
        self.clock.advance(0.001)  # no two claims of one job at the same moment

    def _note_wait(self, job: Job) -> None:
        assert job.claimed_at is not None
        claimed_at_ms = milliseconds_of(job.claimed_at)
        self.waits[job.id, claimed_at_ms] = claimed_at_ms - milliseconds_of(max(job.run_at, job.created_at))


def _may(way: str, row: JobRow) -> bool:
    match way:
        case "cancel":
            return row.status in ("blocked", "scheduled", "pending")
        case "retry":
            return row.status in slow.FINISHED
        case "delete":
            return row.status != "running"
        case _:
            return True


def check_no_orphans(database: PlainDatabase) -> None:
    for table in ("claim", "attempt", "event", "job_tag"):
        orphans = database.ask(f"select count(*) from rowcall_{table} where job_id not in (select id from rowcall_job)")
        assert orphans == [(0,)], table

"""Defects of claims, limits, order, keys and schedules."""

from __future__ import annotations

from tests.planted.defect import defect

ROUND, ADMISSION, TICKS = "store/claims/round.py", "store/limits/admission.py", "store/schedules/ticks.py"

OF_CLAIMS = (
    defect(
        "stage after claim",
        "Stage Claim Expiry",
        "a round claims first, and then expires and stages",
        (ROUND, "        work, stuck = yield from self._stage(work)\n        self._dialect", "        self._dialect"),
        (ROUND, "RoundResult(work, stuck=stuck, last_queue", "RoundResult(work, last_queue"),
        (
            ROUND,
            "        yield from self._finish()\n        return result\n",
            "        yield from self._finish()\n"
            "        _, result.stuck = yield from self._stage(work)\n"
            "        return result\n",
        ),
    ),
    defect(
        "claim leaves the ready row",
        "Claim ClaimRows",
        "SQLite's claim does not delete the ready rows",
        ("store/sqlite/dialect.py", "                yield from self.ask(claim_queries.DELETE_READY, *rows)\n", ""),
    ),
    defect(
        "slot freed twice",
        "Limits SlotsOfWorkers LimitsOfHandlers",
        "the slot of an attempt is freed again when a later attempt of the job has one",
        (
            "store/sqlite/limits.py",
            "when given.value is not null then slot.lease = given.value\n",
            "when given.value is not null then true\n",
        ),
        (
            "store/postgres/limits.py",
            "and ((job_id, lease) in (select job_id, lease from given)\n",
            "and (job_id in (select job_id from given where lease is not null)\n",
        ),
        (
            "worker/settling.py",
            "        del self.late[:late]\n        del self._unsettled[: len(attempts)]\n",
            "        self.late = [*self.late[late:], *(one.fence for one in attempts)]\n"
            "        del self._unsettled[: len(attempts)]\n",
        ),
    ),
    defect(
        "slot of a running handler freed",
        "LimitsOfHandlers SlotsOfWorkers",
        "an attempt frees its slot although its handler was abandoned and still runs",
        (
            "store/ends/attempts.py",
            "return [attempt for attempt in attempts if attempt not in abandoned]",
            "return attempts",
        ),
    ),
    defect(
        "one job too many",
        "Limits",
        "a full limit admits one more",
        (
            ADMISSION,
            "(slots := self.slots) is not None and slots <= 0",
            "(slots := self.slots) is not None and slots < 0",
        ),
    ),
    defect(
        "rate start counted after rollback",
        "RateLimits",
        "a start under a rate stays counted when its transaction is rolled back",
        (
            ADMISSION,
            "NO_STARTS = Starts(0, 0, {})\n",
            "NO_STARTS = Starts(0, 0, {})\n_COUNTED: dict[object, Starts] = {}\n",
        ),
        (
            ADMISSION,
            "        yield from dialect.ask(queries.RECORD_STARTS, starts)\n",
            "        for key, room in rated.items():\n"
            "            times = {number: at for _, number, at, _ in room.new_starts(key)}\n"
            "            last = room.starts.last + room.started\n"
            "            starts_now = Starts(last, room.at_ms, {**room.starts.before, **times})\n"
            "            _COUNTED[id(self.declared.of_task), key] = starts_now\n"
            "        yield from dialect.ask(queries.RECORD_STARTS, starts)\n",
        ),
        (
            ADMISSION,
            "        return needs\n\n    def _record_starts",
            "        for key, room in self._rooms.items():\n"
            "            counted = _COUNTED.get((id(self.declared.of_task), key), NO_STARTS)\n"
            "            if counted.last > room.starts.last:\n"
            "                room.starts = counted\n"
            "        return needs\n\n    def _record_starts",
        ),
    ),
    defect(
        "order passes two",
        "OrderedJobs",
        "two jobs of one value run in order at a time",
        (
            ADMISSION,
            "JobLimit(HELD_BY_ORDER + one, HELD_BY_ORDER, 1)",
            "JobLimit(HELD_BY_ORDER + one, HELD_BY_ORDER, 2)",
        ),
        (ADMISSION, "        return any(head is None or head < job.id for head in heads)", "        return False"),
    ),
    defect(
        "key free too early",
        "Keys",
        "the key of a job is free as soon as the job runs",
        ("store/sqlite/flows.py", "($4 = 'active' or not exists (", "($4 = 'never' or not exists ("),
        ("store/postgres/flows.py", "($4::text = 'active' or not exists (", "($4::text = 'never' or not exists ("),
    ),
    defect(
        "retry ignores the key",
        "Keys Retry RetryOfAKey",
        "a retry by hand runs next to the job that has its key",
        (
            "store/control/single_actions.py",
            "    for obstacle in (yield from obstacles_of(dialect, [job])).values():\n        raise obstacle\n",
            "    yield from obstacles_of(dialect, [job])\n",
        ),
    ),
    defect(
        "expiry cancels running jobs",
        "Expiry Lifecycle",
        "a job that has started expires",
        (
            "store/queries/ends.py",
            "from <job> <indexed:job_expiry> where {EXPIRES_OUTSIDE} and expires_at <=",
            "from <job> where expires_at is not null and status not in <finished> and expires_at <=",
        ),
    ),
    defect(
        "tick without lock",
        "ScheduleRaces Schedules",
        "two workers enqueue the same tick of a schedule",
        (
            "store/queries/schedules.py",
            "    order by next_run_at limit <int:2> <for_update> <skip_locked>",
            "    order by next_run_at limit <int:2>",
        ),
    ),
    defect(
        "tick in two transactions",
        "Schedules ScheduleRaces",
        "the job of a tick and the time of the next one are written in two transactions",
        (
            TICKS,
            "SCHEDULES_AT_ONCE = 100\n",
            "SCHEDULES_AT_ONCE = 100\n_WRITTEN: dict[object, tuple[object, ...]] = {}\n",
        ),
        (
            TICKS,
            "    last: tuple[int | None, int | None] = (None, None)\n",
            "    if (written := _WRITTEN.pop((row.name, row.next_run_at_ms), None)) is not None:\n"
            "        yield from dialect.ask(queries.MOVE_ON, row.name, *written)\n"
            "        return 0\n"
            "    last: tuple[int | None, int | None] = (None, None)\n",
        ),
        (
            TICKS,
            "    yield from dialect.ask(queries.MOVE_ON, row.name, due.following_ms, *last)\n",
            "    _WRITTEN[row.name, row.next_run_at_ms] = (due.following_ms, *last)\n",
        ),
    ),
    defect(
        "wrong order of locks",
        "tests/store/claims/test_lock_order.py Cancel Delete",
        "an action locks jobs before their claims",
        (
            "store/jobs/inspect.py",
            "        locked = set((yield from dialect.ask(LOCK_CLAIMS, job_ids)))\n"
            "        yield from dialect.ask(LOCK_JOBS, job_ids)\n",
            "        yield from dialect.ask(LOCK_JOBS, job_ids)\n"
            "        locked = set((yield from dialect.ask(LOCK_CLAIMS, job_ids)))\n",
        ),
    ),
    defect(
        "prune a needed job",
        "Retention Needed Dependencies",
        "retention deletes a blocker that a job still waits for",
        (
            "store/sqlite/counts.py",
            "waiting.id = edge.job_id\n                        where edge.blocker_id in (<job>.id, <job>.chain_id) and",
            "waiting.id = edge.job_id\n                        where false and",
        ),
        (
            "store/postgres/counts.py",
            "and waiting.finished_at is null\n             limit 1",
            "and false\n             limit 1",
        ),
    ),
)

"""Defects of workers, recovery, connections and transactions."""

from __future__ import annotations

from tests.planted.defect import defect

RECOVER = "store/recovery/recover.py"
RECOVERY, OWNERSHIP = "worker/upkeep/recovery.py", "worker/ownership.py"

OF_WORKERS = (
    defect(
        "recover without counting",
        "LostWorkers Crash",
        "a recovery does not use up the attempt",
        (RECOVER, "Lost(started, job.opened)", "Lost(False, job.opened)"),
    ),
    defect(
        "recover from a stale list",
        "LostWorkers",
        "a silent worker is recovered although it has sent a heartbeat since it was listed",
        (
            RECOVER,
            "yield from dialect.ask(queries.LOCK_WORKER, worker, heartbeats)",
            "yield from dialect.ask(queries.LOCK_WORKER, worker, None)",
        ),
    ),
    defect(
        "recover without the lease",
        "LostWorkers ClockJumps",
        "a worker is lost as soon as one heartbeat is missing",
        (RECOVERY, "return (now - since) * 1000 >= peer.lease_ms", "return now >= since"),
    ),
    defect(
        "lost reply ignored",
        "tests/postgres/test_replies.py",
        "a worker does not ask what it holds after the reply to its commit was lost",
        (OWNERSHIP, "self._in_doubt = not isinstance(error, DataRefused)", "self._in_doubt = False"),
        (OWNERSHIP, "return self.connection.times_opened > self._times_opened", "return False"),
        calls="drain",
    ),
    defect(
        "one holder for all connections",
        "tests/postgres/test_cut.py",
        "a worker whose connection was replaced fences its claims by the holder of the one before",
        (OWNERSHIP, "            self.registrar.renew_holder()\n", ""),
        calls="drain",
    ),
    defect(
        "earlier holders forgotten",
        "tests/postgres/test_replies.py",
        "what a commit in doubt has claimed is looked for under the newest holder only",
        (
            "worker/registrar.py",
            "self.holders = [*self.holders[1 - MOST_HOLDERS :], new_holder()]",
            "self.holders = [new_holder()]",
        ),
        calls="drain",
    ),
    defect(
        "heartbeat that lies",
        "LongHandlers",
        "a heartbeat that finds no row of its worker renews the lease",
        ("worker/upkeep/heartbeat.py", "        if registered:\n", "        if True:\n"),
    ),
    defect(
        "lost worker continues",
        "LongHandlers",
        "a worker that was declared lost registers again, and keeps its buffer and its handlers",
        (
            OWNERSHIP,
            "        self._drop_unstarted()\n        self.dispatcher.stop_all()\n        try:\n",
            "        try:\n",
        ),
    ),
    defect(
        "liveness file not read",
        "Crash LostWorkers",
        "a recovery does not ask the liveness file which handlers had begun",
        (RECOVERY, "started = liveness_file.started_jobs(path)", "started = None"),
    ),
    defect(
        "liveness file ignored",
        "Crash LostWorkers",
        "a dead worker is found by its silence alone, although its lock is free",
        (
            RECOVERY,
            "        if not lives and liveness_file.is_dead(self._file_of(peer)):\n            return True\n",
            "",
        ),
    ),
    defect(
        "recovered job keeps its slot",
        "SlotsOfWorkers Limits LostWorkers",
        "the slots of a lost worker stay taken",
        (RECOVER, "        yield from free_worker(dialect, worker)\n", "        pass\n"),
        (
            RECOVER,
            "settle(dialect, ended, make_tallies, attempts_of(ended), locked=Locked.SKIP)",
            "settle(dialect, ended, make_tallies, (), locked=Locked.SKIP)",
        ),
    ),
    defect(
        "lost reply repeated",
        "Enqueue Transaction",
        "a write whose reply was lost is written again",
        (
            "drivers/postgres/database.py",
            "errors: tuple[type[StoreUnavailable], ...] = (Conflict, NothingWritten)",
            "errors: tuple[type[StoreUnavailable], ...] = (StoreUnavailable,)",
        ),
        calls="enqueue,task.enqueue",
    ),
    defect(
        "notify before commit",
        "Enqueue Transaction Processes",
        "a notification is a statement of the transaction that it is about",
        (
            "drivers/postgres/connection.py",
            '    def commit(self) -> None:\n        try:\n            self._raw.execute("commit", prepare=False)\n',
            "    def commit(self) -> None:\n        self._notify()\n        try:\n"
            '            self._raw.execute("commit", prepare=False)\n',
        ),
        (
            "drivers/postgres/connection.py",
            "            raise self._unsure(error) from error\n        self._notify()\n\n    def _notify",
            "            raise self._unsure(error) from error\n\n    def _notify",
        ),
        calls="enqueue,retry failed,reschedule scheduled",
    ),
    defect(
        "commit after an error",
        "Transaction Enqueue Keys",
        "SQLite's transaction commits what was written before an error",
        (
            "drivers/sqlite/connection.py",
            "                self.roll_back()\n                raise\n            self.commit()",
            "                self.commit()\n                raise\n            self.commit()",
        ),
        calls="cancel blocker,flow.enqueue",
    ),
    defect(
        "one fails all",
        "tests/drivers/test_group_commit.py",
        "the refused member of a shared commit fails the others",
        (
            "drivers/group_commit.py",
            "except Exception as error:  # one",
            "except NothingWritten as error:  # one",
        ),
    ),
    defect(
        "progress of an old attempt",
        "Progress Fence",
        "progress is written about whatever attempt holds the job now",
        (
            "store/sqlite/claims.py",
            "where <claim>.job_id = given.job_id and <claim>.lease = given.lease and <claim>.holder = given.holder\n",
            "where <claim>.job_id = given.job_id\n",
        ),
        (
            "store/postgres/claims.py",
            "      and lease = {_mark.lease} and holder = {_mark.holder}\n      and not ({_mark.replays}",
            "      and not ({_mark.replays}",
        ),
    ),
)

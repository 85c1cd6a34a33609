"""Decides what the worker's loop does next, from what it knows. Pure: no clock, no thread, no database.

It also holds the numbers of the worker, each with its reason. Those of one database alone are in `pacing`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

# --- the loop's waits, in seconds -----------------------------------------------------------------

LONGEST_WAIT_SECONDS = 5.0
"""A worker that nothing wakes checks this often: notifications get lost, and the database's clock may be set."""
SHORTEST_WAIT_SECONDS = 0.001
"""For a deadline that has passed since it was last checked. Waits are counted in milliseconds."""
FIRST_STUCK_SECONDS, LAST_STUCK_SECONDS = 0.05, 1.0
"""Another transaction locks all that is due: try ever less often, as it may stay open."""
FIRST_RETRY_SECONDS, LAST_RETRY_SECONDS = 0.003, 0.05
"""Another claimer locks a limit, for a transaction of a few milliseconds."""
UNSURE_SECONDS = 1.0
"""An edge stays unsure for as long as another transaction locks its blocker."""
ASK_AGAIN_SECONDS = 0.05
"""A handler's transaction ends soon after the handler; asking is one statement."""
LONGEST_UNDECIDED_SECONDS = 5.0
"""A transaction that is open for longer after its handler has ended was probably forgotten: warn, and do not wait."""
DECIDED_SECONDS = 12.0
"""A server ends a transaction that was cut off sooner than this."""
MARK_AFTER_SECONDS = 1.0
"""Attempts from the buffer that run for longer are marked as started. Most end sooner, and cost no statement."""

FORCE_AFTER_SECONDS = 2.0
"""When a worker stops: for handlers that were asked to end, and then for a last try to settle."""

# --- groups and the buffer ------------------------------------------------------------------------

MOST_BUFFERED = 1000
"""Jobs that are claimed ahead of need: larger groups are not cheaper for each job, and a kill loses more."""
AHEAD_SECONDS = 0.05
"""The buffer holds what handlers can start in this time, and outcomes gather for at most as long."""
STALE_SECONDS = 5 * AHEAD_SECONDS
"""Buffered jobs that did not move for this long are released: other workers may have slots for them."""
MOST_BYTES_AHEAD = 8 * 1024 * 1024
"""Payloads in the buffer: large ones must not fill the memory."""
MOST_LAST_AHEAD = MOST_BUFFERED * 3 // 4
"""A kill that leaves no liveness file uses up to this many last attempts that had not begun. With 100, jobs with one
attempt ran a third as fast as others on a server, with 500 three quarters, with this nine tenths."""
LEAST_REACH = 16
"""Where the buffer ends early, still read this far: one statement for a few jobs is as cheap."""
RATE_MEMORY, SIZE_MEMORY = 0.3, 0.5
"""The least weight of a new measurement of the throughput, and the weight of one of the size of payloads."""
MOST_SETTLED = 2000
"""Attempts that one round settles: a larger group takes the write lock for too long."""
LEAST_GROUP = 100
"""Fewer outcomes are not worth a handover between threads."""
ALONE_SECONDS = 10.0
"""After a group that a thread could not settle, rounds settle all of them for a while."""

STREAM_SECONDS = 0.005
"""Values of streams gather for so long after a write. The first one after a pause is written at once."""

JOB_LOG_SECONDS = 2.0
"""How old the lines of running attempts may be, about, that readers of job logs see."""

# --- errors ---------------------------------------------------------------------------------------

FIRST_OUTAGE_SECONDS, LAST_OUTAGE_SECONDS, STOPPING_OUTAGE_SECONDS = 0.05, 5.0, 0.5
"""Pauses while the database is out of reach. A worker that stops has no time for long ones."""
CONFLICT_SECONDS, MOST_CONFLICTS = 0.02, 20
"""Another transaction has the same rows, which is over in a moment. After this many in a row it is an outage."""

# --- the settings of a worker ---------------------------------------------------------------------

DEFAULT_CONCURRENCY, MOST_CONCURRENCY = 10, 1000
DEFAULT_GRACE_SECONDS = 30.0
"""As long as Kubernetes waits for a container that it stops."""
DEFAULT_LEASE_SECONDS, SHORTEST_LEASE_SECONDS = 15.0, 0.1
"""Other workers take over the jobs of one that was silent for so long. Below that, a busy host looks dead."""
HEARTBEATS_PER_LEASE, SURVEYS_PER_LEASE = 5, 3
"""A worker may miss some heartbeats, and others look often enough to notice its end soon after the lease."""
FEW_WORKERS = 10
"""More of them survey less often, down to once per lease: each survey reads all, and it is enough if one notices."""
MISSED_HEARTBEATS = 3
"""A worker whose own heartbeats fail for so long learns nothing from the silence of others."""
MOST_PORT = 65_535

# --- handlers -------------------------------------------------------------------------------------

CANCEL_AGAIN_SECONDS, CANCEL_PATIENCE_SECONDS = 1.0, 5.0
"""An async handler past its timeout may catch its cancellation: repeat it, then settle without the handler."""
ATTEMPTS_BETWEEN_YIELDS = 16
"""Handlers that never wait must not block the event loop; a yield for each would cost a tenth of a drain."""
PROGRESS_SECONDS = 0.5
"""Reports of progress are written at most twice a second. A reader sees no more."""
CHILD_GRACE_SECONDS = 5.0
"""A child process has so long to end on its own, and is then killed."""
CHILDREN_TRIED = 3
"""For one attempt: a child that ends before it has begun says nothing about the job."""
NEAR_THE_LIMIT = 0.8
"""A process that was killed with this share of its memory limit in use probably ran out of memory."""

# --- processes and signals ------------------------------------------------------------------------

PATIENCE_SECONDS = 2.0
"""How long the end of a worker waits for a thread that a server out of reach may block."""
AT_ONCE_SECONDS = 3.0
"""After a second signal: then the process ends, as the database does not answer."""
SAME_SIGNAL_SECONDS = 0.1
"""Two signals within this time are one: timeout(1) sends it to the process and to its group."""
SIGNAL_CHECK_SECONDS = 2.0
"""Python handles a signal that comes just before a wait only after it, so the main thread waits no longer."""
SWITCH_SECONDS = 0.001
"""By default a busy handler keeps the interpreter for 5 ms, and the loop needs it after each statement."""
COLLECTED_AFTER = (10_000, 20, 50)
"""For the garbage collector: a round creates thousands of objects, few of them in cycles."""
FIRST_RESTART_SECONDS, LAST_RESTART_SECONDS = 1.0, 30.0
"""A child process that dies early is started again after ever longer pauses."""
MOST_DOUBLINGS = 10
"""Of that pause: more would overflow."""
LIVED_A_WHILE_SECONDS = 10.0
"""A child that lived for longer did not die early."""
CHILDREN_AT_ONCE_SECONDS, BEYOND_GRACE_SECONDS = 5.0, 7.0
"""How long children have to end after a second signal, or after their grace period, before they are killed."""
SUPERVISOR_WAIT_SECONDS = 0.5
"""As for signals. Many children may end at the same time."""

# --- upkeep ---------------------------------------------------------------------------------------

BLOCKED_SECONDS, LOOK_SECONDS = 1.0, 0.2
"""A handler that keeps the event loop for so long blocks it. Looking costs nothing that a user would notice."""
CANCEL_CHECK_SECONDS = 0.4
"""A cancelled handler is asked to end within half a second."""
MOST_HOLDERS = 16
"""A claim whose commit was in doubt is found by its holder, although the connection was replaced this often since."""
HANDLERS_CHECK_SECONDS = 0.1
"""After the end of a worker whose abandoned handlers still run: how soon the end of the last one is noticed."""
RECOVERY_CHECK_SECONDS = 0.5
"""On one host, a lock shows the death of a worker at once: looking at a few files is cheap."""
FILES_WATCHED = 3
"""Of other workers on this host: enough that two which are suspended hide nobody's death until the next survey."""
CHECKPOINT_SECONDS = 2.0
"""How often to look at the size of SQLite's log."""
SURVEY_JITTER = (0.8, 0.4)
"""Workers that were started together must not survey together: from 0.8 to 1.2 of the time."""
HELD_PAUSE_SECONDS, HELD_GROWTH = 3.0, 8
"""Jobs whose release was missed are found this often. If the freed ones do not run, ever more are freed at once."""
UNKNOWN_PAUSE_SECONDS, LONGEST_GAP_SECONDS = 10.0, 60.0
"""How often to look for jobs that no worker can claim: two statements, and an idle worker asks one a second. After a
longer gap, the worker has not seen what happened."""
UNKNOWN_PAGES_AT_ONCE = 4
"""The thread that fails such jobs has lost workers to find, too."""
UPKEEP_SECONDS = 30.0
"""How often to look which duty is due."""
FOLD_EVERY_MS, PRUNE_EVERY_MS = 20_000, 60_000
"""Counts read all tallies that are not folded. Retention is counted in hours."""
SAMPLE_EVERY_MS, SAMPLE_SHARE = 60_000, 100
"""How often pending jobs are counted, for the line of a chart; it takes at most this part of the time of one worker."""
CLEAN_UP_EVERY_MS, COLLECT_EVERY_MS = 600_000, 3_600_000
"""What lost workers leave behind, and large values that no row refers to. Neither slows anything down."""
HEALTH_SECONDS, HEALTH_SILENCE_MS = 300.0, 3_600_000
"""A problem that lasts is logged once an hour."""

# --- the log --------------------------------------------------------------------------------------

MOST_LINES = 100
"""How many ends in a second have a line each. A person cannot read more."""
LOG_SECONDS = 1.0
"""Above that, each task has one line in this time."""
MOST_SAMPLED = 1000
"""Durations that are kept for a percentile."""
SHOWN_PERCENTILE = 0.95

# --- what is known --------------------------------------------------------------------------------

NEVER = math.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class Knowledge:
    """What the loop knows at one moment. Times are those of the clock's `timer`; `NEVER` if there is none."""

    generation: int = 0
    """Another number as soon as another thread ends an attempt, frees a slot or sets a deadline."""
    stopping: bool = False

    # attempts that ended
    unsettled: int = 0
    late: int = 0
    """Attempts that were abandoned, and whose handlers have ended: a round frees their slots."""
    ask_at: float = NEVER
    """When to ask next whether attempts that completed their jobs, or whose rows were locked, are decided."""
    undecided: int = 0
    """How many of these a drain waits for."""
    in_thread: int = 0
    """Attempts that a thread settles."""
    thread_done: bool = False
    is_large: bool = False
    """Whether a group waits until the thread is free."""
    gathering_since: float = -NEVER
    starts_in_round: bool = False
    """Whether the next handlers start while a round settles the last ones: then no outcomes are gathered."""

    # room
    slots: int = 0
    buffer: int = 0
    """Room in the buffer."""
    batch_room: int = 0
    buffered: int = 0
    enough_buffered: int = 0
    """With more in the buffer, the lanes are busy for long enough to let outcomes gather."""
    slot_needed: bool = False
    """Whether a job that must not be buffered waits for a free slot: nothing else is claimed before it."""

    # jobs that may be claimed
    maybe_any: bool = False
    is_checked: bool = False
    """Whether there was a check since the last round."""
    due_at: float = NEVER
    schedule_at: float = NEVER
    """When a schedule or a rate limit needs a round, whether there is room for a job or not."""
    stuck_until: float = -NEVER
    """Until when others probably lock what is due."""
    retry_at: float = NEVER
    unsure_at: float = NEVER

    # other reasons to wake up, and not to end a drain
    deadline_at: float = NEVER
    log_at: float = NEVER
    busy: bool = False
    """Whether anything runs or is buffered, or an abandoned handler may hold a slot that others wait for."""
    has_ended: bool = False
    """Whether an attempt has ended that is not among the unsettled ones yet."""

    @property
    def has_room(self) -> bool:
        return not self.stopping and self.slots + self.buffer + self.batch_room > 0

    @property
    def next_at(self) -> float:
        """When a round has something to do on its own, if there is room for a job."""
        return min(self.retry_at, max(self.stuck_until, min(self.due_at, self.unsure_at)))

    @property
    def next_schedule_at(self) -> float:
        return max(self.stuck_until, self.schedule_at)


# --- what to do -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Settle:
    """Settle without a round: take the group that a thread settles, or ask about completed attempts."""

    in_thread: bool


@dataclass(frozen=True, slots=True)
class RunRound:
    """In one transaction settle what ended, stage what is due, claim what there is room for."""


@dataclass(frozen=True, slots=True)
class Check:
    """Announce that this worker waits, then look once more, so that no commit falls in between."""


@dataclass(frozen=True, slots=True)
class Gather:
    """Let more outcomes gather: larger groups, fewer commits."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Wait, unless the generation has changed. `for_jobs`: a notification ends the wait."""

    seconds: float
    generation: int
    for_jobs: bool


Step = Settle | RunRound | Check | Gather | Wait
ROUND, CHECK, GATHER = RunRound(), Check(), Gather()


def next_step(known: Knowledge, now: float) -> Step:
    if _may_gather(known, now):
        return GATHER
    if known.in_thread and (known.thread_done or known.is_large):
        return Settle(in_thread=True)
    if known.ask_at <= now:
        return Settle(in_thread=False)
    if known.unsettled or known.late or _is_round_due(known, now):
        return ROUND
    if known.in_thread:  # nothing else to do
        return Settle(in_thread=True)
    if known.has_room and not known.is_checked:
        return CHECK
    return Wait(_seconds_to_wait(known, now), known.generation, known.has_room)


def _may_gather(known: Knowledge, now: float) -> bool:
    """Return whether what ended can wait for more, because the lanes have enough to do."""
    if not 0 < known.unsettled < MOST_SETTLED or known.stopping or known.starts_in_round:
        return False
    enough_to_do = known.slots <= 0 if known.slot_needed else known.buffered > known.enough_buffered
    return enough_to_do and now - known.gathering_since < AHEAD_SECONDS


def _is_round_due(known: Knowledge, now: float) -> bool:
    if not known.has_room:  # a schedule ticks whether there is room for its job or not
        return not known.stopping and known.next_schedule_at <= now
    return known.maybe_any or known.next_at <= now or (known.slot_needed and known.slots > 0)


def _seconds_to_wait(known: Knowledge, now: float) -> float:
    until = min(now + LONGEST_WAIT_SECONDS, known.log_at, known.ask_at, known.deadline_at)
    if not known.stopping:
        until = min(until, known.next_at if known.has_room else known.next_schedule_at)
    if known.buffered:
        until = min(until, now + STALE_SECONDS)
    return until - now if until > now else SHORTEST_WAIT_SECONDS


def survey_seconds(usual: float, workers: int) -> float:
    """Return how long a worker of a fleet waits between surveys.

    >>> survey_seconds(5.0, 3), survey_seconds(5.0, 20), survey_seconds(5.0, 500)
    (5.0, 10.0, 15.0)
    """
    return usual * min(max(1.0, workers / FEW_WORKERS), SURVEYS_PER_LEASE)


def is_old(checked_at: float, now: float) -> bool:
    """Return whether what is known must be checked again, without any sign of a change."""
    return now - checked_at >= LONGEST_WAIT_SECONDS


def is_idle(known: Knowledge, now: float) -> bool:
    """Return whether a drain is over: nothing to settle, nothing running and nothing known to be due."""
    unsettled = known.unsettled or known.late or known.undecided or known.in_thread or known.has_ended
    waiting = known.maybe_any or known.slot_needed or known.retry_at < NEVER or known.next_at <= now
    return not (unsettled or known.busy or waiting)

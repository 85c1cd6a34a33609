"""Jobs that wait although they should not: no worker, a pause, a full limit, a late schedule, too little capacity."""

from __future__ import annotations

import shlex
from collections import defaultdict
from math import inf
from urllib.parse import quote

from rowcall.base.text import duration, one_line
from rowcall.base.times import milliseconds_of, time_of
from rowcall.domain.attention import Finding
from rowcall.domain.job import Paused, paused_by, what_is_paused
from rowcall.domain.limits import HELD_PREFIX, name_of
from rowcall.overview.attention import thresholds
from rowcall.overview.attention.situation import (
    APP,
    MOST_OF_CODE,
    MOST_SAMPLES,
    Situation,
    finding,
    first_of,
    jobs_in,
    oldest_ms,
)
from rowcall.overview.formats import at_least, counted, moment
from rowcall.overview.reasons import limit_text
from rowcall.store.counts.questions import arrivals, window_start
from rowcall.store.jobs import inspect
from rowcall.store.limits.held_jobs import HeldJob, held_job
from rowcall.store.queries.attention import HELD_BACKLOGS, Backlog, HeldBacklog
from rowcall.store.queries.claims import parts_of
from rowcall.store.queries.counts import DUTY_PREFIX, ENDED, SETTINGS
from rowcall.store.statement import Plan

MOST_HELD_KEYS, MOST_HELD, MOST_FIRST = 500, 100_000, 100
MOST_SAID = 200
START_A_WORKER = f"Start a worker: rowcall work {APP}"


def no_worker(situation: Situation) -> Plan[list[Finding]]:
    """Find that no one runs jobs, by hand either, although jobs or schedules are due."""
    if situation.alive:
        return []
    by_hand = situation.by_hand  # claims by hand tick schedules and recover jobs, but start only those of their queues
    due = [one for one in situation.due() if one.queue not in by_hand]
    held = yield from _held_without_worker(situation)
    lost = 0 if by_hand else sum(one.running + one.buffered for one in situation.workers)
    schedules = () if by_hand else situation.schedules
    late = [one for one in schedules if one.next_run_at_ms is not None]
    late = [one for one in late if (one.next_run_at_ms or 0) <= situation.before_ms(thresholds.UNSERVED_SECONDS)]
    if not (due or held or lost or schedules):
        return []
    last_duty_ms = yield from _last_duty_ms(situation)
    last_ms = max(last_duty_ms, _last_sign_ms(situation))
    waiting = [*(one.since_ms for one in held if one.since_ms is not None), *(one.next_run_at_ms or 0 for one in late)]
    began_ms = max(last_ms, min([oldest_ms(due, situation.at_ms), *waiting]))
    if lost:
        began_ms = last_ms
    is_late = bool(due or held or late or lost) and began_ms <= situation.before_ms(thresholds.UNSERVED_SECONDS)
    is_unused = bool(schedules) and last_ms <= situation.before_ms(thresholds.UNUSED_SCHEDULE_SECONDS)
    is_unused &= last_duty_ms > 0  # else there was never a worker: schedules tick when jobs are claimed by hand, too
    if not (is_late or is_unused):
        return []
    facts = [situation.due_text(due)] if due else []
    facts += [_held_text(situation, held)] if held else []
    facts += [f"{counted(lost, 'job')} of workers that are gone must be recovered"] if lost else []
    names = [one.name for one in late or schedules][:MOST_OF_CODE]
    facts += [f"{counted(len(late), 'schedule')} {'is' if len(late) == 1 else 'are'} late"] if late else []
    facts = facts or [f"{counted(len(schedules), 'schedule')} would not run"]
    return [
        finding(
            "no_worker",
            f"no worker is alive: {', and '.join(facts)}",
            START_A_WORKER,
            link="/workers",
            since_ms=began_ms if is_late else last_ms,
            due=jobs_in(due),
            held=sum(one.jobs for one in held),
            lost=lost,
            jobs=(yield from situation.samples(due)) or [one.first_id for one in held[:MOST_SAMPLES]],
            schedules=names,
            registered=len(situation.workers),
        )
    ]


def _last_sign_ms(situation: Situation) -> int:
    """Return when an attempt last ended, or a worker that is gone sent its last heartbeat."""
    heartbeats = [milliseconds_of(worker.heartbeat_at) for worker in situation.workers]
    ends = [at for (queue, _), at in situation.last_ends.items() if queue not in situation.by_hand]
    return max((at for at in (*ends, *heartbeats) if at <= situation.at_ms), default=0)


def _last_duty_ms(situation: Situation) -> Plan[int]:
    """Return when a worker last did one of its regular duties, at most 10 minutes before it ended."""
    settings = yield from situation.dialect.ask(SETTINGS)
    times = (int(value) for name, value in settings if name.startswith(DUTY_PREFIX) and value.isdecimal())
    return max((at for at in times if at <= situation.at_ms), default=0)


def queue_unserved(situation: Situation) -> Plan[list[Finding]]:
    by_queue: dict[str, list[Backlog]] = defaultdict(list)
    for one in situation.due() if situation.alive else ():
        if not situation.servers(one.queue) and one.queue not in situation.by_hand:
            by_queue[one.queue].append(one)
    findings = []
    served = ", ".join(sorted({worker.queues for worker in situation.alive}))
    for queue, backlogs in sorted(by_queue.items(), key=lambda item: -jobs_in(item[1])):
        began_ms = max(oldest_ms(backlogs, situation.at_ms), situation.last_end_ms(queue))
        if began_ms > situation.before_ms(thresholds.UNSERVED_SECONDS):
            continue
        findings.append(
            finding(
                "queue_unserved",
                f"no worker serves queue {queue}: {situation.due_text(backlogs)}",
                f"Start a worker for it: {_command('work', '--queues', queue)};"
                f" the workers that are alive serve {served}",
                link=_jobs_link(queue=queue, status="pending"),
                since_ms=began_ms,
                queue=queue,
                due=jobs_in(backlogs),
                jobs=(yield from situation.samples(backlogs)),
            )
        )
    return first_of(findings)


def task_unknown(situation: Situation) -> Plan[list[Finding]]:
    """Find jobs that no worker of their queue takes: it does not know the task, or not with these arguments."""
    by_task: dict[tuple[str, str, bool], list[Backlog]] = defaultdict(list)
    for backlog in situation.due():
        if situation.servers(backlog.queue) and not situation.fits(backlog):
            task, unfit = parts_of(backlog.key)
            by_task[backlog.queue, task, bool(unfit)].append(backlog)
    findings = []
    for (queue, task, is_unfit), backlogs in sorted(by_task.items(), key=lambda item: -jobs_in(item[1])):
        began_ms = max(oldest_ms(backlogs, situation.at_ms), situation.last_end_ms(queue, task))
        if began_ms > situation.before_ms(thresholds.UNSERVED_SECONDS):
            continue
        # a worker counts from when it first saw them
        seen_ms = max(began_ms, min(milliseconds_of(one.started_at) for one in situation.servers(queue)))
        fails_ms = seen_ms + round(situation.queue.config.unknown_task_seconds * 1000)
        until = "soon" if fails_ms <= situation.at_ms else f"from {moment(time_of(fails_ms))[:-4]} UTC on"
        code, refuses, advice = (
            (
                "arguments_refused",
                f"no worker of queue {queue} accepts jobs of",
                "code that fits them",
            )
            if is_unfit
            else ("task_unknown", f"no worker of queue {queue} knows", "the code that declares it")
        )
        jobs = yield from situation.samples(backlogs)
        refusal = (yield from situation.sample_error(jobs)) if is_unfit else None
        findings.append(
            finding(
                code,
                f"{refuses} task {task}: {situation.due_text(backlogs)}; without such a worker they fail {until}"
                + (f"; {one_line(refusal)[:MOST_SAID]}" if refusal else ""),
                f"Start a worker with {advice}: {_command('work')}; or cancel the jobs:"
                f" {_command('cancel', '--type', task)}",
                link=_jobs_link(type=task, status="pending"),
                since_ms=began_ms,
                queue=queue,
                task=task,
                due=jobs_in(backlogs),
                fails_at=time_of(fails_ms).isoformat(),
                sample=refusal,
                jobs=jobs,
            )
        )
    return first_of(findings)


def paused(situation: Situation) -> Plan[list[Finding]]:
    by_pause: dict[tuple[str, str], list[Backlog]] = defaultdict(list)
    for one in (*situation.ready, *situation.overdue):
        if (pause := situation.pause_of(one)) is not None:
            by_pause[pause.kind, pause.name].append(one)
    findings = []
    for pause in situation.paused:
        backlogs = by_pause[pause.kind, pause.name]
        since_ms = milliseconds_of(pause.at)
        if backlogs and since_ms <= situation.before_ms(thresholds.PAUSED_SECONDS):
            findings.append(_paused(situation, pause, backlogs, (yield from situation.samples(backlogs))))
    return first_of(sorted(findings, key=lambda one: -int(str(one.evidence["due"]))))


def _paused(situation: Situation, pause: Paused, backlogs: list[Backlog], jobs: list[int]) -> Finding:
    since_ms = milliseconds_of(pause.at)
    ago = duration((situation.at_ms - since_ms) / 1000)
    kind = ["--task"] if pause.kind == "task" else []
    return finding(
        "paused",
        f"{what_is_paused(pause.kind, pause.name)} was paused {ago} ago by {pause.actor or 'someone'}:"
        f" {situation.due_text(backlogs)}",
        f"Resume it, unless this is intended: {_command('resume', *kind, pause.name)}",
        link="/queues" if pause.kind == "queue" else _jobs_link(type=pause.name, status="pending"),
        since_ms=since_ms,
        **{pause.kind: pause.name},
        actor=pause.actor,
        due=jobs_in(backlogs),
        jobs=jobs,
    )


def limit_full(situation: Situation) -> Plan[list[Finding]]:
    """Find limits whose first held job has waited for long; keys of one limit count together."""
    if not (situation.alive or situation.by_hand) and _last_sign_ms(situation) <= situation.before_ms(
        thresholds.UNSERVED_SECONDS
    ):
        return []  # `no_worker` says so: a limit with room starts no job alone
    by_limit: dict[str, list[HeldBacklog]] = defaultdict(list)
    for one in (yield from _held_by_limit(situation)):
        by_limit[name_of(one.by.removeprefix(HELD_PREFIX))].append(one)
    findings = []
    for name, keys in sorted(by_limit.items(), key=lambda item: -sum(one.jobs for one in item[1])):
        keys.sort(key=lambda one: one.since_ms or 0)
        since_ms, jobs = keys[0].since_ms or 0, sum(one.jobs for one in keys)
        if since_ms > situation.before_ms(thresholds.HELD_SECONDS):
            continue
        held = yield from held_job(situation.dialect, keys[0].first_id)
        key = keys[0].by.removeprefix(HELD_PREFIX)
        state = f"limit {name} is full" if held is None else limit_text(key, held)
        more = any(one.jobs == one.most for one in keys) or len(keys) == MOST_HELD_KEYS
        waits = duration((situation.at_ms - since_ms) / 1000)
        findings.append(
            finding(
                "limit_full",
                f"{state}; {at_least(jobs, more)} {'job waits' if jobs == 1 else 'jobs wait'} for it,"
                f" the first for {waits}",
                _advice_on_limit(name, held),
                link="/limits",
                since_ms=since_ms,
                limit=name,
                held=jobs,
                keys=len(keys),
                running=None if held is None else held.used,
                allowed=None if held is None else held.numbers.concurrency,
                jobs=[one.first_id for one in keys[:3]],
            )
        )
    return first_of(findings)


def _held_by_limit(situation: Situation) -> Plan[list[HeldBacklog]]:
    """Return the due jobs that limits hold, those of each key."""
    held = yield from situation.dialect.ask(HELD_BACKLOGS, MOST_HELD_KEYS, MOST_HELD)
    return [one for one in held if one.by.startswith(HELD_PREFIX) and one.since_ms is not None]


def _held_without_worker(situation: Situation) -> Plan[list[HeldBacklog]]:
    """Return the jobs that limits hold, without the jobs that are paused or whose queue is claimed by hand."""
    held = sorted((yield from _held_by_limit(situation)), key=lambda one: one.since_ms or 0)
    if not held or not (situation.paused or situation.by_hand):
        return held
    held = held[:MOST_FIRST]
    firsts = (yield from inspect.get_all(situation.dialect, [one.first_id for one in held])).values()
    waiting = {
        job.id
        for job in firsts
        if job.queue not in situation.by_hand and paused_by(job.queue, job.type, situation.paused) is None
    }
    return [one for one in held if one.first_id in waiting]


def _held_text(situation: Situation, held: list[HeldBacklog]) -> str:
    jobs = sum(one.jobs for one in held)
    more = any(one.jobs == one.most for one in held) or len(held) == MOST_HELD_KEYS
    since_ms = min(one.since_ms or situation.at_ms for one in held)
    waits = duration((situation.at_ms - since_ms) / 1000)
    if jobs == 1:
        return f"1 job waits for a limit for {waits}"
    return f"{at_least(jobs, more)} jobs wait for a limit, the first for {waits}"


def _advice_on_limit(name: str, held: HeldJob | None) -> str:
    if held is not None and (held.hold or held.breaker) is not None:
        said = "Correct what fails, or wait until then; to let its jobs start now: "
        return said + _command("limits", "reset", name)
    by_rate = held is not None and held.numbers.rate is not None and held.used < (held.numbers.concurrency or inf)
    raise_it = _command("limits", "set", name, "--rate" if by_rate else "--concurrency")
    return f"See what its jobs do: {_command('stuck')}; if what it protects can take more, raise it: {raise_it} N"


def schedule_late(situation: Situation) -> Plan[list[Finding]]:
    yield from ()
    findings = []
    for schedule in sorted(situation.schedules, key=lambda one: one.next_run_at_ms or 0):
        due_ms = schedule.next_run_at_ms
        if schedule.problem is not None:
            message = f"schedule {schedule.name} does not tick: {schedule.problem}"
            remove = _command("schedules", "--remove", schedule.name)
            advice = f"Correct it, and start the workers again; or remove it: {remove}"
        elif due_ms is not None and due_ms <= situation.before_ms(thresholds.LATE_SCHEDULE_SECONDS):
            late = duration((situation.at_ms - due_ms) / 1000)
            message = f"schedule {schedule.name} was due {late} ago, and has not enqueued {schedule.task}"
            advice = START_A_WORKER
            if situation.alive:
                advice = (
                    f"See what the workers log; cron lines need: pip install 'rowcall[cron]'; {_command('schedules')}"
                )
        else:
            continue
        findings.append(
            finding(
                "schedule_late",
                message,
                advice,
                link="/schedules",
                since_ms=due_ms,
                schedule=schedule.name,
                task=schedule.task,
                problem=schedule.problem,
            )
        )
    return first_of(findings)


def falling_behind(situation: Situation) -> Plan[list[Finding]]:
    """Find queues whose jobs are served and wait for long, as more arrive than end."""
    by_queue: dict[str, list[Backlog]] = defaultdict(list)
    for one in situation.due():
        if situation.fits(one):
            by_queue[one.queue].append(one)
    before_ms = situation.before_ms(thresholds.LONG_WAIT_SECONDS)
    late = {queue: found for queue, found in by_queue.items() if oldest_ms(found, situation.at_ms) <= before_ms}
    if not late:
        return []
    since_ms = window_start(situation.at_ms, round(thresholds.WINDOW_SECONDS * 1000))
    arrived: dict[str, int] = defaultdict(int)
    ended: dict[str, int] = defaultdict(int)
    arrived_since_ms, groups = yield from arrivals(situation.dialect, since_ms, situation.at_ms)
    for queue, _, jobs in groups:
        arrived[queue] += jobs
    for past in (yield from situation.dialect.ask(ENDED, since_ms, situation.at_ms)):
        ended[past.queue] += past.jobs if past.outcome in ("succeeded", "failed", "cancelled") else 0
    findings = []
    for queue, backlogs in sorted(late.items(), key=lambda item: -jobs_in(item[1])):
        arriving = arrived[queue] / max((situation.at_ms - arrived_since_ms) / 1000, 1.0)
        ending = ended[queue] / max((situation.at_ms - since_ms) / 1000, 1.0)
        drain_seconds = jobs_in(backlogs) / (ending - arriving) if ending > arriving else None
        if drain_seconds is not None and drain_seconds <= thresholds.LONG_DRAIN_SECONDS:
            continue
        findings.append(
            finding(
                "falling_behind",
                f"queue {queue} falls behind: {situation.due_text(backlogs)}; {_rates(arriving, ending)};"
                f" {_drain(jobs_in(backlogs), ending, drain_seconds)}",
                f"Add workers or concurrency: {_command('work', '--queues', queue, '--concurrency')} N;"
                f" see what the jobs that run do: {_command('stuck')}",
                link=_jobs_link(queue=queue, status="pending"),
                since_ms=oldest_ms(backlogs, situation.at_ms),
                queue=queue,
                due=jobs_in(backlogs),
                arriving_per_second=round(arriving, 3),
                ending_per_second=round(ending, 3),
                drain_seconds=None if drain_seconds is None else round(drain_seconds),
                jobs=(yield from situation.samples(backlogs)),
            )
        )
    return first_of(findings)


def _rates(arriving: float, ending: float) -> str:
    window = duration(thresholds.WINDOW_SECONDS)
    unit, factor = ("second", 1) if max(arriving, ending) >= 1 else ("minute", 60)
    return (
        f"in the last {window}, {arriving * factor:,.1f} arrived per {unit} and {ending * factor:,.1f} ended per {unit}"
    )


def _drain(jobs: int, ending: float, drain_seconds: float | None) -> str:
    if drain_seconds is not None:
        return f"at these rates the backlog is gone in {duration(drain_seconds)}"
    if ending <= 0:
        return "none ended, so it is not known how long the backlog takes"
    return f"if no more arrived, the backlog would take {duration(jobs / ending)}"


def _command(name: str, *words: str) -> str:
    return shlex.join(["rowcall", name, APP, *words])


def _jobs_link(**chosen: str) -> str:
    return "/jobs?" + "&".join(f"{name}={quote(value, safe='')}" for name, value in sorted(chosen.items()))

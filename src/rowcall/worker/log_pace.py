"""Decides whether each attempt that ended has a line in the log, or counts in one line a second for its task."""

from __future__ import annotations

import logging
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence

from rowcall.base.text import duration, one_line
from rowcall.context import logger
from rowcall.domain.lifecycle import Move
from rowcall.domain.outcome import OUTCOMES
from rowcall.worker.attempt import Attempt
from rowcall.worker.pace import LOG_SECONDS, MOST_LINES, MOST_SAMPLED, SHOWN_PERCENTILE
from rowcall.worker.settings import LogJobs


class LogPace:
    """Used by the loop's thread alone."""

    def __init__(self, log_jobs: LogJobs, timer: Callable[[], float]) -> None:
        self._log_jobs = log_jobs
        self._timer = timer
        self._second_began = -math.inf
        self._ended = 0
        self._summarizes = False
        self._tasks: defaultdict[str, TaskSummary] = defaultdict(TaskSummary)
        self._explained = False

    def logs_starts(self) -> bool:
        """Return whether each start has a line, too."""
        return self._log_jobs != "failures" and not self._summarizes and logger.isEnabledFor(logging.DEBUG)

    def admits(self, attempts: Sequence[Attempt], moves: Sequence[Move]) -> bool:
        """Return whether each of these ends has a line. If not, they are counted for the line of their task."""
        if self._log_jobs == "failures" or not logger.isEnabledFor(logging.INFO):
            return False
        if self._log_jobs == "all":
            return True
        self.turn()
        self._ended += len(attempts)
        if not self._summarizes and self._ended > MOST_LINES:
            self._summarizes, self._second_began, self._ended = True, self._timer(), len(attempts)
            self._explain()
        if self._summarizes and attempts:
            self._count(attempts, moves)
        return not self._summarizes

    def _explain(self) -> None:
        """Say once where the lines of jobs are."""
        if not self._explained:
            self._explained = True
            logger.info("above %d jobs a second: one line a second per task; see --log-jobs", MOST_LINES)

    def turn(self) -> None:
        """End the second, if it is over."""
        if self._timer() - self._second_began >= LOG_SECONDS:
            self.end_second()

    def end_second(self) -> None:
        """Log what ended without a line. If it was little, later attempts have lines again."""
        for task in sorted(self._tasks):
            self._tasks[task].log(task)
        self._tasks.clear()
        self._summarizes = self._summarizes and self._ended > MOST_LINES
        self._second_began, self._ended = self._timer(), 0

    @property
    def log_at(self) -> float:
        """When something has to be logged."""
        return self._second_began + LOG_SECONDS if self._tasks else math.inf

    def _count(self, attempts: Sequence[Attempt], moves: Sequence[Move]) -> None:
        names = [attempt.ready.type for attempt in attempts]
        if names.count(names[0]) == len(names):  # mostly, and a tenth of the cost
            self._tasks[names[0]].add(attempts, moves)
            return
        by_task = defaultdict(list)
        for name, attempt, move in zip(names, attempts, moves, strict=True):
            by_task[name].append((attempt, move))
        for name, ended in by_task.items():
            self._tasks[name].add([attempt for attempt, _ in ended], [move for _, move in ended])


class TaskSummary:
    """How the attempts of one task ended in a second, and how long some of them took: each n-th, from first to last."""

    def __init__(self) -> None:
        self._moves: Counter[Move] = Counter()
        self._took: list[float] = []
        self._every = 1
        self._worker = ""

    def add(self, attempts: Sequence[Attempt], moves: Sequence[Move]) -> None:
        skipped = -self._moves.total() % self._every
        self._took += [one.finished_at - one.started_at for one in attempts[skipped :: self._every] if one.started_at]
        self._moves.update(moves)
        while len(self._took) > MOST_SAMPLED:
            del self._took[1::2]
            self._every *= 2
        self._worker = attempts[0].claim.identity.name

    def log(self, task: str) -> None:
        counts: Counter[str] = Counter()
        for move, count in self._moves.items():
            # as in the lines, an attempt that is retried has failed
            counts["failed" if move is Move.RETRY else OUTCOMES[move]] += count
        fields: dict[str, object] = {name: counts[name] for name in OUTCOMES.values() if counts[name]}
        text = ", ".join(f"{count:,} {name}" for name, count in fields.items())
        if self._took:
            seconds = sorted(self._took)[math.ceil(len(self._took) * SHOWN_PERCENTILE) - 1]
            fields["p95_ms"] = round(seconds * 1000, 3)
            text += f", p95 {_short(seconds)}"
        logger.info("%s: %s", one_line(task), text, extra={"job_type": task, "worker": self._worker, **fields})


def _short(seconds: float) -> str:
    """Return a duration with a digit more than others: most handlers that end so often take less than a millisecond.

    >>> [_short(seconds) for seconds in (0.000002, 0.00042, 0.0123, 1.25)]
    ['<0.1 ms', '0.4 ms', '12 ms', '1.2 s']
    """
    milliseconds = seconds * 1000
    if milliseconds < 0.05:
        return "<0.1 ms"
    return f"{milliseconds:.1f} ms" if milliseconds < 9.95 else duration(seconds)

"""Queues and tasks of which nothing is started for a while."""

from __future__ import annotations

import builtins

from rowcall.base.text import one_line
from rowcall.context import logger
from rowcall.domain.job import Paused, what_is_paused
from rowcall.operations.control import actor_of
from rowcall.operations.job_filters import checked_pause
from rowcall.queue import Queue
from rowcall.store.control.queries import PAUSE, PAUSED, RESUME


class Pausing(Queue):
    def pause(self, queue: str | None = None, *, task: str | None = None, actor: str | None = None) -> Paused:
        """Start no more jobs of a queue, or of a task, until it is resumed: no worker does, and nobody by hand.

        What runs goes on, and what expires meanwhile expires. Twice is once. The queue `*` is every queue, also those
        that do not exist yet.

            jobs.pause("mail")
            jobs.pause(task="send_email")
            jobs.pause("*")
        """
        kind, name = checked_pause(queue, task)
        who = actor_of(actor)
        return _told(self.write(lambda: self.dialect.ask(PAUSE, self.now_ms(), kind, name, who))[0])

    async def apause(self, queue: str | None = None, *, task: str | None = None, actor: str | None = None) -> Paused:
        kind, name = checked_pause(queue, task)
        who = actor_of(actor)
        return _told((await self.awrite(lambda: self.dialect.ask(PAUSE, self.now_ms(), kind, name, who)))[0])

    def resume(self, queue: str | None = None, *, task: str | None = None, actor: str | None = None) -> bool:
        """Resume a queue or a task, and return whether it was paused.

        `resume("*")` ends `pause("*")`. What was paused by its name stays paused.
        """
        kind, name = checked_pause(queue, task)
        who = actor_of(actor)
        was_paused = bool(self.write(lambda: self.dialect.ask(RESUME, kind, name)))
        return _told_of_resuming(kind, name, who, was_paused)

    async def aresume(self, queue: str | None = None, *, task: str | None = None, actor: str | None = None) -> bool:
        kind, name = checked_pause(queue, task)
        who = actor_of(actor)
        was_paused = bool(await self.awrite(lambda: self.dialect.ask(RESUME, kind, name)))
        return _told_of_resuming(kind, name, who, was_paused)

    def paused(self) -> builtins.list[Paused]:
        """The queues and tasks that are paused now, since when, and by whom."""
        return self.read(self.dialect.ask(PAUSED))

    async def apaused(self) -> builtins.list[Paused]:
        return await self.aread(self.dialect.ask(PAUSED))


def _told(paused: Paused) -> Paused:
    logger.info("%s is paused, by %s", one_line(what_is_paused(paused.kind, paused.name)), one_line(str(paused.actor)))
    return paused


def _told_of_resuming(kind: str, name: str, actor: str, was_paused: bool) -> bool:
    if was_paused:
        logger.info("%s was resumed by %s", one_line(what_is_paused(kind, name)), one_line(actor))
    return was_paused

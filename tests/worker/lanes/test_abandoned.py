"""Attempts that were settled although their handlers continue."""

from __future__ import annotations

from rowcall import Rowcall
from rowcall.worker.lanes.abandoned import Abandoned
from rowcall.worker.registrar import Identity
from tests.worker.lanes.test_deadlines import attempts


def test_an_attempt_is_abandoned_until_its_handler_or_its_process_ends(jobs: Rowcall) -> None:
    running, dying = attempts(jobs, 2)
    abandoned = Abandoned()
    abandoned.identity = running.common.identity
    dying.common = running.common
    assert not abandoned
    abandoned.add(running)
    abandoned.add_dying(dying)
    assert (len(abandoned), abandoned.fences()) == (1, {running.fence, dying.fence})
    abandoned.end(running)
    abandoned.end_dying(dying)
    assert not abandoned
    assert abandoned.any_ended
    assert abandoned.pop_ended() == [running.fence, dying.fence]
    assert not abandoned.any_ended


def test_attempts_of_a_former_registration_are_left_out(jobs: Rowcall) -> None:
    (attempt,) = attempts(jobs, 1)
    abandoned = Abandoned()
    abandoned.identity = Identity("another", None)
    abandoned.add(attempt)
    assert abandoned.fences() == set()
    abandoned.end(attempt)
    assert abandoned.pop_ended() == []

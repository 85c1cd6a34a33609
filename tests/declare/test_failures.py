"""Codes of the user's own, and a scrubber of the user's: what is accepted, and what happens where they break."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from rowcall import Fail, InvalidOption, Rowcall, StoreUnavailable
from rowcall.app import queue_of
from rowcall.declare.failures import SCRUBBING_FAILED, Failures


class Declined(Exception): ...


class DeclinedByBank(Declined): ...


class Busy(TimeoutError):
    def __init__(self, where: str) -> None:
        super().__init__(where)
        self.where = where


def test_a_fixed_code_holds_for_the_classes_below_until_they_have_their_own(jobs: Rowcall) -> None:
    jobs.error_code(Declined, "PAYMENT:DECLINED")
    assert queue_of(jobs).declared.failures.code_of(DeclinedByBank()) == "PAYMENT:DECLINED"
    jobs.error_code(DeclinedByBank, "BANK:DECLINED")
    assert queue_of(jobs).declared.failures.code_of(DeclinedByBank()) == "BANK:DECLINED"
    assert queue_of(jobs).declared.failures.code_of(Declined()) == "PAYMENT:DECLINED"
    assert queue_of(jobs).declared.failures.code_of(KeyError()) == "INTERNAL:KeyError"


def test_a_function_returns_the_code_and_stays_a_function(jobs: Rowcall) -> None:
    @jobs.error_code(Busy)
    def busy_code(error: Busy) -> str:
        return f"BUSY:{error.where}"

    assert busy_code(Busy("here")) == "BUSY:here"
    assert queue_of(jobs).declared.failures.code_of(Busy("there")) == "BUSY:there"
    assert queue_of(jobs).declared.failures.code_of(TimeoutError()) == "TIMEOUT:OPERATION"


def test_one_s_own_come_before_the_tables(jobs: Rowcall) -> None:
    jobs.error_code(Exception, "MY:OWN")
    assert queue_of(jobs).declared.failures.code_of(TimeoutError()) == "MY:OWN"
    assert queue_of(jobs).declared.failures.code_of(KeyboardInterrupt()) == "INTERNAL:KeyboardInterrupt"


def test_the_error_of_a_locked_file_has_the_code_of_a_lock(tmp_path: Path) -> None:
    with Rowcall(tmp_path / "app.db", busy_timeout=0) as jobs:
        jobs.migrate()
        with closing(sqlite3.connect(tmp_path / "app.db", isolation_level=None)) as holder:
            holder.execute("begin immediate")
            with pytest.raises(StoreUnavailable) as caught:
                jobs.enqueue("anything")
        assert queue_of(jobs).declared.failures.code_of(caught.value) == "DEPENDENCY:DB_LOCKED"


def test_queues_do_not_share_codes(jobs: Rowcall, tmp_path: Path) -> None:
    jobs.error_code(Declined, "PAYMENT:DECLINED")
    assert queue_of(Rowcall(tmp_path / "other.db")).declared.failures.code_of(Declined()) == "INTERNAL:Declined"


@pytest.mark.parametrize("code", ["", "DEC LINED", "A::C", "A: B", "A:" + "B" * 99, 5, b"A:B"])
def test_an_invalid_code_is_refused_where_it_is_declared(jobs: Rowcall, code: Any) -> None:
    with pytest.raises(InvalidOption, match=r"^error_code must look like"):
        jobs.error_code(Declined, code)
    assert queue_of(jobs).declared.failures.code_of(Declined()) == "INTERNAL:Declined"


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (5, "for an exception class"),
        (int, "for an exception class"),
        (Fail, "cannot have a code"),
    ],
)
def test_other_classes_are_refused(jobs: Rowcall, kind: Any, said: str) -> None:
    with pytest.raises(InvalidOption, match=said):
        jobs.error_code(kind)
    with pytest.raises(InvalidOption, match=said):
        jobs.error_code(kind, "A:B")


def test_a_second_code_and_an_async_function_are_refused(jobs: Rowcall) -> None:
    jobs.error_code(Declined, "A:B")
    with pytest.raises(InvalidOption, match="Declined already has a code"):
        jobs.error_code(Declined)

    async def later(error: Busy) -> str:
        return "A:B"

    with pytest.raises(InvalidOption, match="not async"):
        jobs.error_code(Busy)(later)  # type: ignore[arg-type]


def rude(error: BaseException) -> str:
    raise SystemExit("no")


@pytest.mark.parametrize(
    "function", [lambda error: 1 / 0, rude, lambda error: None, lambda error: "not a code", lambda error: 404]
)
def test_a_function_that_fails_is_ignored_and_logged_once(
    jobs: Rowcall, function: Callable[[BaseException], str], caplog: pytest.LogCaptureFixture
) -> None:
    jobs.error_code(Busy)(function)

    @jobs.task(max_attempts=1)
    def break_down() -> None:
        raise Busy("here")

    ids = [break_down.enqueue().id for _ in range(3)]
    assert jobs.drain().failed == 3
    assert {jobs.get(job_id).error_code for job_id in ids} == {"TIMEOUT:OPERATION"}
    assert caplog.text.count("ignored the error code of Busy") == 1


def rude_scrubber(text: str) -> str:
    raise KeyboardInterrupt


@pytest.mark.parametrize("scrub", [rude_scrubber, lambda text: text.encode(), lambda text: 1 / 0])
def test_a_scrubber_that_breaks_lets_nothing_through(
    scrub: Callable[[str], str], caplog: pytest.LogCaptureFixture
) -> None:
    failures = Failures(scrub)
    kept = failures.raised(ValueError("secret"))
    assert (kept.detail, kept.traceback, kept.code) == (SCRUBBING_FAILED, SCRUBBING_FAILED, "INTERNAL:ValueError")
    assert caplog.text.count("scrub failed, texts are replaced") == 1
    assert "secret" not in caplog.text


def test_a_subclass_with_its_own_text_is_scrubbed_too() -> None:
    class Stolen(Fail):
        def __init__(self) -> None:
            super().__init__("CARD:STOLEN")
            self.detail = "card 4111"

    kept = Failures(lambda text: text.replace("4111", "****")).raised(Stolen()).error
    assert isinstance(kept, Fail)
    assert (kept.code, kept.detail) == ("CARD:STOLEN", "card ****")


def test_without_a_scrubber_errors_are_handed_on_as_they_are() -> None:
    error = Fail("A:B", "why")
    assert Failures().raised(error).error is error

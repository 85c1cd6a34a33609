"""On MariaDB and MySQL, the caller's settings decide nothing, and a transaction that failed is said to have failed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pymysql
import pytest

from rowcall import Backoff, Context, InvalidOption
from rowcall.domain.errors import Conflict
from rowcall.drivers.mysql.connection import options_of
from rowcall.testing import eventually
from tests.drivers.caller.queue_site import Site

MODES = {
    "none": "",
    "as MySQL has it": "ONLY_FULL_GROUP_BY,STRICT_TRANS_TABLES,NO_ZERO_IN_DATE,NO_ZERO_DATE,NO_ENGINE_SUBSTITUTION",
    "ANSI": "ANSI,ONLY_FULL_GROUP_BY",
    "TRADITIONAL": "TRADITIONAL",
    "no backslashes": "NO_BACKSLASH_ESCAPES,HIGH_NOT_PRECEDENCE,NO_UNSIGNED_SUBTRACTION",
}
LEVELS = ("read uncommitted", "read committed", "repeatable read", "serializable")


@contextlib.contextmanager
def connected(site: Site, *settings: str, **options: Any) -> Iterator[Any]:
    connection = pymysql.connect(**options_of(site.database), **{"charset": "utf8mb4", **options})
    with contextlib.closing(connection), connection.cursor() as cursor:
        for setting in settings:
            cursor.execute(f"set session {setting}")
        yield connection


@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
def test_no_mode_changes_what_is_written(mysql_sites: tuple[Site, Site], mode: str) -> None:
    """Most of what can be done on a connection, in a time zone and with a collation of the caller's own."""
    site = mysql_sites[0]
    jobs, queue = site.jobs, f"mode {mode[:100]}"
    settings = (f"sql_mode = '{mode}'", "time_zone = '-08:00'", "collation_connection = 'utf8mb4_unicode_ci'")
    with connected(site, *settings) as mine:

        @jobs.task(name=queue, queue=queue, max_attempts=1)
        def work(ctx: Context, number: int) -> None:
            ctx.continue_with(site.send.using(queue=queue, delay=60), to="after")
            ctx.complete({"n": number}, connection=mine)
            mine.commit()

        mine.begin()
        options: dict[str, Any] = {"queue": queue, "connection": mine}
        text = 'a\'b\\n"c" % 🙂 || $1'
        plain = jobs.enqueue("plain", {"text": text}, delay=60, **options)
        keyed = jobs.enqueue("plain", {"n": 1}, key="K", tags=["a", "A"], delay=60, expires_in=90, **options)
        again = jobs.enqueue("plain", {"n": 2}, key="K", on_duplicate="replace", delay=60, **options)
        other = jobs.enqueue("plain", {"n": 1}, key="k ", delay=60, retry=Backoff.exponential(2, cap=600), **options)
        later = jobs.enqueue("plain", {"n": 3}, after=[plain, other], **options)
        moved = jobs.reschedule(keyed, delay=600, connection=mine)
        cancelled = jobs.cancel(other, connection=mine)
        done = work.using(connection=mine).enqueue(7)
        mine.commit()
        assert (again.id, again.duplicate, other.duplicate) == (keyed.id, True, False)
        summary = jobs.drain(queues=[queue])
    assert (summary.succeeded, jobs.get(done).result) == (1, {"n": 7})
    assert (jobs.get(plain).payload, jobs.get(keyed).payload) == ({"text": text}, {"n": 2})
    assert (moved.id, cancelled.status, jobs.get(later).status) == (keyed.id, "cancelled", "cancelled")
    assert jobs.get(keyed).run_at - jobs.get(keyed).created_at > timedelta(minutes=9)
    assert [job.payload for job in jobs.list(queue=queue, type="send").jobs] == [{"to": "after"}]


@pytest.mark.parametrize("charset", ["latin1", "utf8mb3"])
def test_a_character_set_that_cannot_carry_all_texts_is_refused(mysql_sites: tuple[Site, Site], charset: str) -> None:
    site = mysql_sites[0]
    with (
        connected(site, charset=charset) as mine,
        pytest.raises(InvalidOption, match="another character set than utf8mb4"),
    ):
        site.send.using(connection=mine).enqueue("é")
    assert [job for job in site.jobs.list(queue="default").jobs if job.payload == {"to": "é"}] == []


@pytest.mark.parametrize("first_ends", ["commit", "rollback"])
@pytest.mark.parametrize("level", LEVELS)
def test_two_transactions_with_one_key_write_one_job(
    mysql_sites: tuple[Site, Site], level: str, first_ends: str
) -> None:
    site, key = mysql_sites[0], f"{level} {first_ends}"
    isolation = f"transaction isolation level {level}"
    with connected(site, isolation) as first, connected(site, isolation) as second:
        for connection in (first, second):
            with connection.cursor() as cursor:
                cursor.execute("select count(*) from mine")  # what it sees is decided now
        mine = site.send.using(connection=first, key=key).enqueue("a")
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(lambda: site.send.using(connection=second, key=key).enqueue("b"))
            eventually(lambda: waits(site), message="the second waits")
            getattr(first, first_ends)()
            theirs = waiting.result()
        assert theirs.duplicate is (first_ends == "commit")
        assert (theirs.id == mine.id) is (first_ends == "commit")
        second.commit()
    assert [job.id for job in site.jobs.list(type="send", queue="default").jobs if job.key == key] == [theirs.id]


def waits(site: Site) -> bool:
    ((_, waiting),) = site.execute("show global status like 'innodb_row_lock_current_waits'")
    return int(waiting) > 0


def test_a_lock_that_cannot_be_had_asks_for_a_rollback(mysql_sites: tuple[Site, Site]) -> None:
    site = mysql_sites[0]
    with connected(site) as first, connected(site, "innodb_lock_wait_timeout = 1") as second:
        site.send.using(connection=first, key="locked").enqueue("a")
        with pytest.raises(Conflict, match=r"Your transaction has failed.*roll it back, and begin again"):
            site.send.using(connection=second, key="locked").enqueue("b")
        second.rollback()
        first.rollback()
        assert not site.send.using(connection=second, key="locked").enqueue("c").duplicate
        second.rollback()

"""Pages, counts and retention read no more than they have to, whatever else there is in the table."""

from __future__ import annotations

import itertools
import re
import sqlite3
from types import SimpleNamespace

import pytest

from rowcall.store.dialect import Order
from rowcall.store.jobs.pages import BY_CHAIN, BY_ID, BY_KEY, BY_TAG, BY_TAG_AND_STATUS, HOPPED, Source
from rowcall.store.sqlite.dialect import catalogue
from rowcall.store.sqlite.pages import MOST_GROUPS_MERGED, SqlitePages
from tests.store.databases import query_plan, read_from
from tests.store.filters import ALONE

NEWEST, OLDEST = Order(), Order(newest_first=False)
PAGES = SqlitePages("rowcall_")
SQL = SimpleNamespace(**catalogue("rowcall_").texts())
BY_ROWID = "USING INTEGER PRIMARY KEY (rowid=?)"
OF_CLAIM = f"SEARCH rowcall_claim {BY_ROWID}"
OF_GROUP = "status=? AND queue=? AND type=?"
ENDED = ("ended", "ended_by_error", "ended_by_period", "durations")
SOURCE_NAMES = {source.index_name or source.table: source for source in HOPPED}
WAITING = "rowcall_job USING INDEX rowcall_job_waiting (status=?"


def reads(database: sqlite3.Connection, sql: str) -> list[str]:
    """The steps that read the jobs, without those about what was found before."""
    return [
        line
        for line in query_plan(database, sql)
        if re.match(r"(SCAN|SEARCH) (rowcall_job|rowcall_ready|rowcall_claim|job|claim|next|tagged)\b", line)
    ]


def sorts(database: sqlite3.Connection, sql: str) -> list[str]:
    return [line for line in query_plan(database, sql) if line.startswith("USE TEMP B-TREE")]


def way(source: Source) -> str:
    index = f"INDEX rowcall_{source.index_name}" if source.index_name else "PRIMARY KEY"
    of_status = "status=? AND " if source.index_name == "job_waiting" else ""
    return f"SEARCH rowcall_{source.table} USING {index} ({of_status}"


def hops(source: Source) -> list[str]:
    """From a group to the next: by its last column, else by the one before, and so on."""
    conditions = [
        " AND ".join([*(f"{name}=?" for name in source.columns[:index]), f"{source.columns[index]}>?"])
        for index in reversed(range(len(source.columns)))
    ]
    return [f"{way(source)}{condition})" for condition in conditions]


@pytest.mark.parametrize("name", SOURCE_NAMES)
def test_groups_are_found_by_hopping_along_their_index(database: sqlite3.Connection, name: str) -> None:
    source = SOURCE_NAMES[name]
    assert reads(database, PAGES.groups[source]) == [
        f"{way(source)}{source.columns[0]}>?)",  # its first entry
        f"SEARCH next {BY_ROWID}",
        *hops(source),
    ]
    assert sorts(database, PAGES.groups[source]) == []


def test_groups_of_finished_jobs_are_found_like_those_of_pages(database: sqlite3.Connection) -> None:
    assert reads(database, SQL.finished_groups) == reads(database, PAGES.groups[SOURCE_NAMES["job_finished"]])


@pytest.mark.parametrize("name", SOURCE_NAMES)
def test_a_page_merges_its_groups_from_their_ends(database: sqlite3.Connection, name: str) -> None:
    source = SOURCE_NAMES[name]
    ends = " AND ".join([*(f"{column}=?" for column in source.columns), f"{source.place[0]}>?", f"{source.place[0]}<?"])
    for groups, order in itertools.product((1, 2, MOST_GROUPS_MERGED), (NEWEST, OLDEST)):
        sql = PAGES.first_places(source, groups, order)
        found = [line.replace("rowid", "id") for line in reads(database, sql)]
        assert found == [f"{way(source)}{ends})"] * groups, order
        assert sorts(database, sql) == [], (groups, order)
        # the id is not a column of an index; nothing is read from the table
        assert set(read_from(database, sql)) <= {"rowcall_ready", f"rowcall_{source.index_name}"}, (groups, order)


@pytest.mark.parametrize("order", [NEWEST, OLDEST])
@pytest.mark.parametrize(
    ("source", "step"),
    [
        (BY_ID, "SEARCH rowcall_job USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"),
        (BY_KEY, "SEARCH rowcall_job USING INDEX rowcall_job_key (type=? AND key=? AND id>? AND id<?)"),
        (BY_TAG, "SEARCH rowcall_job_tag USING PRIMARY KEY (tag=? AND job_id>? AND job_id<?)"),
        (
            BY_TAG_AND_STATUS,
            "SEARCH rowcall_job_tag USING INDEX rowcall_job_tag_status (tag=? AND status=? AND job_id>? AND job_id<?)",
        ),
    ],
)
def test_a_page_of_a_known_group_goes_along_its_index(
    database: sqlite3.Connection, source: Source, step: str, order: Order
) -> None:
    assert query_plan(database, PAGES.first_places(source, 1, order)) == [step]


def test_the_steps_of_a_chain_are_read_as_a_whole(database: sqlite3.Connection) -> None:
    assert reads(database, PAGES.first_places(BY_CHAIN, 1, NEWEST)) == [
        "SEARCH rowcall_job USING INDEX rowcall_job_chain (chain_id=?)"
    ]


def test_running_jobs_are_sought_among_themselves(database: sqlite3.Connection) -> None:
    assert reads(database, PAGES.running(NEWEST)) == [
        "SEARCH rowcall_claim USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)",
        f"SEARCH {WAITING})",
    ]
    of_job, of_claim = f"SEARCH job {BY_ROWID}", f"SEARCH claim {BY_ROWID} LEFT-JOIN"
    assert reads(database, SQL.running) == ["SCAN claim", of_job, of_claim]


def test_jobs_of_a_page_are_read_by_id(database: sqlite3.Connection) -> None:
    for wanted in ALONE:
        found = reads(database, next(PAGES.matching(wanted, [1])).sql)
        if wanted.tag:
            found.remove("SEARCH tagged USING PRIMARY KEY (tag=? AND job_id=?)")
        # newer versions of SQLite may seek the id behind a key, or in its chain
        others = ["(type=? AND key=? AND id=? AND rowid=?)"] if wanted.key else []
        others += ["(chain_id=?)"] if wanted.chain_id else []
        of_job, of_claim = found
        assert of_job.endswith((BY_ROWID, *others)), wanted
        assert of_claim == f"SEARCH claim {BY_ROWID} LEFT-JOIN", wanted


@pytest.mark.parametrize("name", ["unfinished", "unfinished_attempts"])
def test_what_waits_is_counted_without_a_look_at_its_rows(database: sqlite3.Connection, name: str) -> None:
    sql = getattr(SQL, name)
    found = reads(database, sql)
    # of running jobs, which are few, the queue and the type are in their rows
    running = ["SCAN rowcall_claim", f"SEARCH {WAITING})".replace("rowcall_job", "job", 1), OF_CLAIM]
    assert [line for line in found if line != f"SEARCH rowcall_job {BY_ROWID}"] == [
        "SCAN rowcall_ready",
        *running,
        "SCAN rowcall_job USING INDEX rowcall_job_held",
        *[f"SEARCH {WAITING})"] * 2,  # scheduled, blocked
    ]
    start = "select '" if name == "unfinished" else "select type, attempt"
    arms = [arm[arm.index(start) :].partition(")\n")[0] for arm in sql.split("union all") if start in arm]
    counted = [read_from(database, arm) for arm in arms if "indexed by" in arm and "running" not in arm]
    assert counted == [["rowcall_job_held"], ["rowcall_job_waiting"], ["rowcall_job_waiting"]]


def test_a_look_at_the_rows_would_be_seen(database: sqlite3.Connection) -> None:
    sql = "select payload from rowcall_job indexed by rowcall_job_waiting where status = 'blocked' group by queue"
    assert read_from(database, sql) == ["rowcall_job", "rowcall_job_waiting"]


def test_arrivals_are_sought_by_id(database: sqlite3.Connection) -> None:
    assert reads(database, SQL.arrivals) == ["SEARCH rowcall_job USING INTEGER PRIMARY KEY (rowid>?)"]
    assert reads(database, SQL.newest_id) == ["SCAN rowcall_job"]  # up to the first


def test_pruning_begins_with_the_oldest_of_a_group(database: sqlite3.Connection) -> None:
    assert reads(database, SQL.prune) == [
        f"SEARCH rowcall_job {BY_ROWID}",
        f"SEARCH rowcall_job USING INDEX rowcall_job_aged ({OF_GROUP} AND finished_at>? AND finished_at<?)",
    ]
    assert sorts(database, SQL.prune) == []


def test_what_would_be_pruned_is_counted_in_the_same_index(database: sqlite3.Connection) -> None:
    assert reads(database, SQL.prunable) == [
        f"SEARCH rowcall_job USING INDEX rowcall_job_aged ({OF_GROUP} AND finished_at>? AND finished_at<?)",
        f"SEARCH rowcall_job USING INDEX rowcall_job_aged ({OF_GROUP} AND finished_at>?)",
    ]
    assert "rowcall_job" not in read_from(database, SQL.prunable)


def test_the_first_and_last_of_an_error_code_are_at_the_ends_of_its_index(database: sqlite3.Connection) -> None:
    search = "SEARCH rowcall_job USING INDEX rowcall_job_failed (<expr>=?)"
    assert reads(database, SQL.error_spans) == [search] * 4
    assert sorts(database, SQL.error_spans) == []


def test_jobs_that_wait_for_a_retry_are_counted_along_their_index(database: sqlite3.Connection) -> None:
    way = "SEARCH job USING INDEX rowcall_job_error (status=? AND error_code=? AND type=?)"
    assert reads(database, SQL.waiting_errors) == [way, OF_CLAIM]
    assert "rowcall_job" not in read_from(database, SQL.waiting_errors)
    assert sorts(database, SQL.waiting_errors) == []


def test_tallies_and_history_are_read_in_their_order(database: sqlite3.Connection) -> None:
    assert "SCAN rowcall_tally" in query_plan(database, SQL.remove_tallies)  # by id, up to the limit
    for name in ("first_shorter", "remove_shorter", "prune_past", *ENDED):
        assert "INDEX rowcall_history_at (at" in " ".join(query_plan(database, getattr(SQL, name)))
    for name in ("remove_tallies", "first_shorter", "prune_past"):
        assert sorts(database, getattr(SQL, name)) == []


@pytest.mark.parametrize("name", ["ready", "held", "scheduled", "blocked"])
def test_a_part_of_what_waits_is_counted_along_its_index(database: sqlite3.Connection, name: str) -> None:
    ways = {"ready": "rowcall_ready USING PRIMARY KEY (", "held": "rowcall_job USING INDEX rowcall_job_held ("}
    way = ways.get(name, f"{WAITING} AND ")
    place = "(rank,turn,id)>(?,?,?)" if name == "ready" else "id>?"
    for kind, condition in (
        ("next_group", "(queue,type)>(?,?)"),
        ("part", f"queue=? AND type=? AND {place}"),
        ("last_place", f"queue=? AND type=? AND {place}"),
    ):
        sql = getattr(SQL, f"{kind}_of_{name}")
        (found,) = reads(database, sql)
        assert found.replace("COVERING ", "").replace("rowid", "id") == f"SEARCH {way}{condition})"
        assert "rowcall_job" not in read_from(database, sql), kind
    assert sorts(database, getattr(SQL, f"last_place_of_{name}")) == []

"""`rowcall move`: everything arrives, once, and nothing else is written on either side."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from rowcall import MovedTo, Rowcall
from rowcall.app import queue_of
from rowcall.domain.config import configure
from rowcall.domain.errors import DataRefused, InvalidOption, StoreUnavailable
from rowcall.moving.mover import Mover
from rowcall.moving.verify import canonical
from rowcall.queue import Backend
from rowcall.store.moves import copying
from rowcall.store.moves.copying import Rows
from rowcall.store.moves.tables import LEFT, MOVED, OWNED, WHOLE
from rowcall.store.schema import TABLES
from tests.conformance.notes import Notes
from tests.faults.world import app_at, build, plain_database
from tests.moving.product import move, quiet

PAIRS = (
    *(("sqlite", "postgres"), ("postgres", "sqlite"), ("sqlite", "mysql")),
    *(("mysql", "sqlite"), ("mysql", "postgres"), ("postgres", "mysql")),
)
FEW_PAIRS = (("sqlite", "postgres"), ("mysql", "sqlite"))
"""Each database on one side."""


def url_for(database: str, name: str, tmp_path: Path, request: pytest.FixtureRequest) -> str:
    if database == "sqlite":
        return f"sqlite:///{tmp_path / name}.db"
    return str(request.getfixturevalue(f"{database}_url"))


@pytest.fixture
def urls(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, str]:
    source, target = request.param
    return url_for(source, "source", tmp_path, request), url_for(target, "target", tmp_path, request)


def pairs(chosen: tuple[tuple[str, str], ...]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("urls", chosen, indirect=True, ids=["-to-".join(pair) for pair in chosen])


def backend(url: str) -> Backend:
    return Backend(lambda: configure(url))


def all_rows(side: Backend) -> Rows:
    owned = side.database.read(copying.read_after(side.dialect, 0, 2**31, 2**31))
    return {**owned, **side.database.read(copying.read_whole(side.dialect))}


def test_every_table_is_copied_or_left_for_a_reason() -> None:
    assert {*OWNED, *WHOLE, *LEFT} == {*TABLES}
    assert not {*OWNED, *WHOLE} & {*LEFT}
    owned = {name for name, columns in TABLES.items() if "\n  job_id bigint not null" in columns or name == "job"}
    assert owned - {*OWNED} <= {*LEFT, "limit_hold", "parent_check"}, "what belongs to jobs is copied with them"


@pytest.mark.parametrize("name", [*OWNED, *WHOLE])
def test_every_column_is_copied(name: str) -> None:
    lines = [line.split()[0] for line in TABLES[name].strip().splitlines()]
    assert [column for column, _ in MOVED[name].columns] == [
        line for line in lines if line not in ("primary", "constraint")
    ]


class TestDatabases:
    pytestmark = pytest.mark.no_tables

    @pytest.mark.slow
    @pairs(PAIRS)
    def test_jobs_of_every_kind_and_all_that_belongs_to_them_arrive(
        self, urls: tuple[str, str], tmp_path: Path
    ) -> None:
        source, target = urls
        origin = f"sqlite:///{tmp_path}/origin.db" if source.startswith("mysql") else source
        scene = build(origin, Notes(tmp_path / "notes"))
        app = app_at(origin, Notes(tmp_path / "notes"))
        app.jobs.complete(scene.jobs["claimed"])  # claimed by hand: the move would wait for it
        app.jobs.pause("mail", actor="ann")
        app.close()
        if origin != source:
            move(origin, source)

        done = move(source, target)

        assert done.verified.compared == done.verified.counted > 20
        with closing(backend(source)) as here, closing(backend(target)) as there:
            copied = [all_rows(side) for side in (here, there)]
            for name in (*OWNED, *WHOLE):
                assert canonical(copied[0], name) == canonical(copied[1], name), name
            assert copied[0]["pause"][0][1] == "mail"
        app = app_at(target, Notes(tmp_path / "notes"))
        assert app.jobs.enqueue("plain").id > max(job.id for job in scene.jobs.values())
        assert app.jobs.drain(queues=["default", "lost"]).succeeded > 10
        app.close()

    @pairs(FEW_PAIRS)
    def test_the_source_refuses_all_writes_and_can_be_read(self, urls: tuple[str, str]) -> None:
        source, target = urls
        with Rowcall(source) as jobs:
            job = jobs.enqueue("work")
            move(source, target)
            for write in (
                lambda: jobs.enqueue("work"),
                lambda: jobs.cancel(job),
                lambda: jobs.delete(job),
                lambda: jobs.claim("me", limit=1),
                jobs.drain,
            ):
                with pytest.raises(MovedTo, match="has moved, to another database"):
                    write()
            assert jobs.get(job).status == "pending"
        with Rowcall(target) as jobs:
            assert [claimed.id for claimed in jobs.claim("me", limit=5)] == [job.id]

    @pairs(FEW_PAIRS)
    def test_a_move_that_has_ended_can_be_repeated(self, urls: tuple[str, str]) -> None:
        source, target = urls
        with Rowcall(source) as jobs:
            jobs.enqueue("work")
        assert move(source, target).jobs == 1
        with Rowcall(target) as jobs:
            jobs.enqueue("work")
        assert move(source, target).jobs == 0
        with Rowcall(target) as jobs:
            assert len(jobs.list().jobs) == 2

    @pairs(FEW_PAIRS)
    def test_a_target_with_jobs_is_refused(self, urls: tuple[str, str]) -> None:
        source, target = urls
        for url in urls:
            with Rowcall(url) as jobs:
                jobs.enqueue("work")
        with pytest.raises(InvalidOption, match="already holds jobs"):
            move(source, target)
        for url in urls:
            with Rowcall(url) as jobs:
                jobs.enqueue("work")

    @pairs(FEW_PAIRS)
    def test_a_move_can_be_aborted_before_the_switch(self, urls: tuple[str, str]) -> None:
        source, target = urls
        with Rowcall(source) as jobs:
            jobs.enqueue("work", tags=["a"])
            jobs.claim("me", limit=1)
            with pytest.raises(StoreUnavailable):
                move(source, target, wait_seconds=0.0)
            with closing(backend(target)) as there:
                mover = Mover(queue_of(jobs), there, wait_seconds=0.0, report=quiet)
                assert mover.plan().copied == 1
                mover.abort()
                with pytest.raises(InvalidOption, match="has begun"):
                    mover.abort()
            assert jobs.paused() == []
            jobs.enqueue("work")
        with Rowcall(target) as jobs:
            assert jobs.list().jobs == []
            assert jobs.enqueue("work", tags=["a"]) in jobs.list(tag="a").jobs

    @pairs((("sqlite", "postgres"),))
    def test_a_row_that_the_other_database_refuses_is_named(self, urls: tuple[str, str]) -> None:
        source, target = urls
        with Rowcall(source) as jobs, closing(plain_database(source)) as plain:
            jobs.enqueue("work")
            plain.ask("""insert into rowcall_job (type, payload) values ('odd', '{"a": "\\u0000"}')""")
            odd, last = jobs.list(type="odd").jobs[0], jobs.enqueue("work")
            with pytest.raises(DataRefused, match=f"job {odd.id} does not fit"):
                move(source, target)
            jobs.delete(odd)
            assert move(source, target).verified.counted == 2
        with Rowcall(target) as jobs:
            assert [job.id for job in jobs.list().jobs] == [last.id, 1]

    @pairs(FEW_PAIRS)
    def test_an_attempt_that_does_not_end_is_not_moved(self, urls: tuple[str, str]) -> None:
        source, target = urls
        with Rowcall(source) as jobs:
            jobs.enqueue("work")
            (claimed,) = jobs.claim("me", limit=1)
            with pytest.raises(StoreUnavailable, match="1 attempt still ran"):
                move(source, target, wait_seconds=0.0)
            jobs.enqueue("work")
            with Rowcall(target) as there, pytest.raises(MovedTo):
                there.enqueue("work")
            jobs.complete(claimed)
            (claimed,) = jobs.claim("me", limit=1)
            jobs.complete(claimed)
        assert move(source, target).verified.counted == 2

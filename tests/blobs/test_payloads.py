"""Large arguments and results, in and out, on both databases."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import pytest

from rowcall import Context, InvalidArguments, InvalidOption, Rowcall, current
from rowcall.app import queue_of
from rowcall.domain.blobs import BLOB_KEY
from rowcall.operations.effects import Write
from rowcall.store.statement import Statement, as_is, execute
from tests.blobs.conftest import LARGE, TOO_LARGE, Open
from tests.blobs.support import TEXT, Shelves, digest_in_row, referred

JSON_AROUND = len('{"text":""}')


def test_there_and_back(jobs: Rowcall) -> None:
    seen: list[object] = []

    @jobs.task
    def shout(ctx: Context, text: str) -> str:
        seen.extend([text, ctx.job.payload, current().job.payload])
        return text.upper()

    job = shout.enqueue(TEXT)
    assert job.payload == {"text": TEXT}
    assert jobs.drain().succeeded == 1
    assert seen == [TEXT, {"text": TEXT}, {"text": TEXT}]
    found = jobs.get(job.id)
    assert (found.payload, found.result) == ({"text": TEXT}, TEXT.upper())
    stored = {digest_in_row(jobs, job), digest_in_row(jobs, job, "result")}
    assert Shelves(jobs).digests == stored
    assert sorted(referred(jobs)) == sorted((str(digest), job.id) for digest in stored)


def test_there_and_back_by_the_async_twins(jobs: Rowcall) -> None:
    @jobs.task
    async def shout(ctx: Context, text: str) -> str:
        assert ctx.job.payload == {"text": text}
        return text.upper()

    async def scenario() -> None:
        one = await shout.aenqueue(TEXT)
        two, three = await shout.aenqueue_many([{"text": TEXT + "2"}, {"text": "small"}])
        assert (await jobs.adrain()).succeeded == 3
        assert (await jobs.aget(one.id)).result == TEXT.upper()
        assert (await jobs.aget(two.id)).payload == {"text": TEXT + "2"}
        assert (await jobs.aget(three.id)).result == "SMALL"

    asyncio.run(scenario())


@pytest.mark.parametrize("character", ["x", "é", "😀"])
def test_the_threshold_is_met_to_the_byte(jobs: Rowcall, character: str) -> None:
    width = len(character.encode())
    filling = "y" * ((LARGE - JSON_AROUND) % width)
    at_most = character * ((LARGE - JSON_AROUND) // width) + filling
    inside, outside = (jobs.enqueue("task", {"text": text}) for text in (at_most, at_most + "y"))
    assert digest_in_row(jobs, inside) is None
    assert digest_in_row(jobs, outside) is not None
    assert jobs.get(outside.id).payload == {"text": at_most + "y"}


def test_the_limit_is_met_to_the_byte(jobs: Rowcall) -> None:
    at_most = "x" * (TOO_LARGE - JSON_AROUND)
    assert jobs.get(jobs.enqueue("task", {"text": at_most}).id).payload == {"text": at_most}
    with pytest.raises(
        InvalidArguments, match=r"task: 65,537 bytes of JSON are more than payload_limit allows \(65,536"
    ):
        jobs.enqueue("task", {"text": at_most + "x"})
    assert len(jobs.list().jobs) == len(Shelves(jobs).digests) == 1


def test_a_limit_below_the_threshold_holds_too(open_queue: Open) -> None:
    jobs = open_queue(payload_limit=LARGE, blob_threshold=TOO_LARGE)
    jobs.enqueue("task", {"text": "x" * (LARGE - JSON_AROUND)})
    with pytest.raises(InvalidArguments):
        jobs.enqueue("task", {"text": "x" * (LARGE - JSON_AROUND + 1)})


def test_one_of_many_that_is_too_large_is_named_and_nothing_is_enqueued(jobs: Rowcall) -> None:
    @jobs.task
    def shout(text: str) -> None: ...

    with pytest.raises(InvalidArguments, match="row 1: "):
        shout.enqueue_many([{"text": TEXT}, {"text": "x" * TOO_LARGE}])
    assert jobs.list().jobs == []


def test_many_at_once_keep_their_order_and_share_what_is_equal(jobs: Rowcall) -> None:
    @jobs.task
    def shout(text: str) -> None: ...

    texts = [TEXT, "small", TEXT, TEXT + "2"]
    written = shout.enqueue_many([{"text": text} for text in texts])
    assert [jobs.get(job.id).payload["text"] for job in written] == texts
    assert len(Shelves(jobs).digests) == 2
    assert {job for _, job in referred(jobs)} == {written[index].id for index in (0, 2, 3)}


def test_jobs_with_the_same_large_result_refer_to_it_each(jobs: Rowcall) -> None:
    @jobs.task
    async def shout() -> str:
        return TEXT

    ids = [job.id for job in shout.enqueue_many([{}] * 3)]
    assert jobs.drain().succeeded == 3
    (digest,) = Shelves(jobs).digests
    assert sorted(referred(jobs)) == [(str(digest), job_id) for job_id in ids]


def test_a_list_shows_references(jobs: Rowcall) -> None:
    job = jobs.enqueue("task", {"text": TEXT})
    (listed,) = jobs.list().jobs
    assert listed.payload == {BLOB_KEY: f"sha256:{digest_in_row(jobs, job)}", "size": len(TEXT) + JSON_AROUND}


def test_by_hand(jobs: Rowcall) -> None:
    ids = [jobs.enqueue("task", {"text": text}).id for text in (TEXT, "small")]
    claimed = jobs.claim("me", limit=2)
    assert [job.payload["text"] for job in claimed] == [TEXT, "small"]
    jobs.complete(claimed[0], result=TEXT)
    assert jobs.get(ids[0]).result == TEXT
    with pytest.raises(InvalidArguments, match="payload_limit"):
        jobs.complete(claimed[1], result="x" * TOO_LARGE)
    jobs.complete(claimed[1])
    assert len(Shelves(jobs).digests) == 2


def test_by_hand_by_the_async_twins(jobs: Rowcall) -> None:
    async def scenario() -> None:
        job = await jobs.aenqueue("task", {"text": TEXT})
        claimed = await jobs.adequeue("me")
        assert claimed is not None
        assert claimed.payload == {"text": TEXT}
        await jobs.acomplete(claimed, TEXT)
        assert (await jobs.aget(job.id)).result == TEXT

    asyncio.run(scenario())


@pytest.mark.parametrize("is_async", [False, True])
def test_a_result_that_is_too_large_fails_the_job(jobs: Rowcall, is_async: bool) -> None:
    def much() -> str:
        return "x" * TOO_LARGE

    async def amuch() -> str:
        return "x" * TOO_LARGE

    job = (jobs.task(amuch) if is_async else jobs.task(much)).enqueue()
    assert jobs.drain().failed == 1
    found = jobs.get(job.id)
    assert (found.error_code, found.attempt) == ("INVALID_OUTPUT:TOO_LARGE", 1)
    assert "65,538 bytes" in str(found.error_detail)


def test_a_retry_by_hand_runs_with_the_same_payload(jobs: Rowcall) -> None:
    seen: list[str] = []

    @jobs.task
    def shout(text: str) -> str:
        seen.append(text)
        return text

    job = shout.enqueue(TEXT)
    jobs.drain()
    jobs.retry(job.id)
    jobs.drain()
    assert seen == [TEXT, TEXT]
    assert jobs.get(job.id).result == TEXT


def test_what_could_be_taken_for_a_reference_is_refused(jobs: Rowcall) -> None:
    lookalike = {BLOB_KEY: "sha256:" + "0" * 64, "size": 1}
    with pytest.raises(InvalidArguments, match=BLOB_KEY):
        jobs.enqueue("task", lookalike)
    with pytest.raises(InvalidOption, match=BLOB_KEY):

        @jobs.task
        def shout(__rowcall_blob__: str) -> None: ...

    @jobs.task
    def cheat() -> dict[str, object]:
        return lookalike

    job = cheat.enqueue()
    jobs.drain()
    assert jobs.get(job.id).error_code == "INVALID_OUTPUT:NOT_JSON"


@pytest.mark.parametrize("payload", ['{"__rowcall_blob__": "../../etc/passwd", "size": 1}', '{"__rowcall_blob__": 1}'])
def test_plain_sql_cannot_lead_a_reader_astray(jobs: Rowcall, payload: str) -> None:
    padded = payload.replace("}", ', "filling": "' + "x" * 60 + '"}')
    job = jobs.enqueue("shout", {"text": "x"})
    _update_payload(jobs, padded)

    @jobs.task
    def shout(text: str) -> None: ...

    jobs.drain()
    assert jobs.get(job.id).error_code == "INVALID_INPUT:SCHEMA_MISMATCH"
    assert BLOB_KEY in jobs.get(job.id).payload


def _update_payload(jobs: Rowcall, payload: str) -> None:
    queue_of(jobs).run(Write(lambda: execute(Statement(f"update rowcall_job set payload = '{payload}'", (), as_is))))


class _NoStore:
    def put(self, digest: str, data: bytes) -> None: ...
    def get(self, digest: str) -> bytes:
        raise KeyError(digest)

    def digests(self, older_than_seconds: float) -> Iterable[str]:
        return ()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"blobs": _NoStore()}, "blobs must be a BlobStore: _NoStore has no delete"),
        ({"blobs": dict}, "blobs must be "),
        ({"blob_threshold": 1}, "blob_threshold must be a number of bytes from 1024"),
        ({"payload_limit": True}, "payload_limit must be "),
        ({"payload_limit": "64 MB", "blob_threshold": 2**40}, "blob_threshold must be .*payload_limit must be "),
    ],
)
def test_options_are_checked(options: dict[str, object], said: str) -> None:
    with pytest.raises(InvalidOption, match=said):
        Rowcall("sqlite:///app.db", **options)  # type: ignore[arg-type]


def test_the_defaults() -> None:
    config = queue_of(Rowcall("sqlite:///app.db")).config
    assert (config.blobs, config.blob_threshold, config.payload_limit) == (None, 262_144, 67_108_864)

"""What jobs carry is encrypted in every table, and every reader with the key can read it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import NamedTuple

import msgspec
import pytest

from rowcall import (
    Backoff,
    CannotDecrypt,
    Context,
    Encryption,
    InvalidOption,
    Job,
    JobFailed,
    JobOutcome,
    Rekeyed,
    Rowcall,
    Status,
)
from rowcall.app import queue_of
from rowcall.domain.encryption import Kind
from rowcall.operations.blobs import collect_blobs
from rowcall.task import ContextTask
from rowcall.testing.fake_clock import FakeClock
from tests.conformance.store import Store

OLD, NEW = "o" * 43, "n" * 43
CODE = "INVALID_INPUT:CANNOT_DECRYPT"
SECRET = "4111-1111"
LARGE = SECRET * 50_000


class App(NamedTuple):
    jobs: Rowcall
    charge: ContextTask[[str], str]
    seen: list[JobOutcome]


Open = Callable[..., App]


def declare(jobs: Rowcall) -> App:
    seen: list[JobOutcome] = []

    @jobs.task(max_attempts=1)
    def charge(ctx: Context, card: str) -> str:
        ctx.progress(0.5, f"charging {card}")
        ctx.stream({"card": card[:40]})
        ctx.log.info("charging %s", card[:40])
        if card.endswith("fails"):
            raise ValueError(f"{card} was refused")
        return f"charged {card}"

    @charge.on_failure
    def refused(job: JobOutcome) -> None:
        seen.append(job)

    return App(jobs, charge, seen)


class TestEncryption:
    @pytest.fixture
    def open_app(self, store: Store, clock: FakeClock) -> Iterator[Open]:
        with ExitStack() as opened:

            def open_one(*keys: str, require: bool = False) -> App:
                encrypt = Encryption(keys=keys, require=require) if keys else None
                return declare(opened.enter_context(Rowcall(store.url, clock=clock, encrypt=encrypt)))

            yield open_one

    def texts_in(self, store: Store) -> str:
        """All texts of all tables."""
        tables = ("job", "attempt", "event", "schedule", "step", "signal", "stream", "log")
        return "\n".join(str(store.execute(f"select * from rowcall_{table}")) for table in tables)

    def test_no_row_holds_the_secret_and_every_reader_with_the_key_sees_it(self, open_app: Open, store: Store) -> None:
        jobs, charge, seen = open_app(NEW)

        @jobs.task
        def stepwise(ctx: Context, card: str) -> str:
            return ctx.step("charge", lambda: f"step {card}") + str(
                ctx.wait_for("confirmed", prompt=f"pay with {card}?")
            )

        done, failed = charge.enqueue(SECRET), charge.enqueue(f"{SECRET} fails")
        many = charge.enqueue_many([{"card": SECRET}] * 2)
        with jobs.transaction() as transaction:
            inside = charge.using(connection=transaction).enqueue(SECRET)
        keyed = charge.using(key="k").enqueue(SECRET)
        stepped = stepwise.enqueue(SECRET)
        jobs.signal(stepped, "confirmed", {"card": SECRET})
        jobs.add_schedule("nightly", "charge", {"card": SECRET}, cron="0 3 * * *")
        assert SECRET not in self.texts_in(store)
        assert (done.payload, keyed.payload, jobs.get(many[1]).payload) == ({"card": SECRET},) * 3
        jobs.drain()
        jobs.drain()
        assert SECRET not in self.texts_in(store)
        assert jobs.result(done) == jobs.get(inside).result == f"charged {SECRET}"
        assert jobs.get(stepped).result == f"step {SECRET}{{'card': '{SECRET}'}}"
        assert [step.result for step in jobs.steps(stepped)] == [f"step {SECRET}", {"card": SECRET}]
        assert jobs.steps(stepped)[1].question == {"prompt": f"pay with {SECRET}?"}
        found, detail = jobs.get(failed), f"{SECRET} fails was refused"
        assert (found.status, found.error_code, found.error_detail) == (Status.FAILED, "INTERNAL:ValueError", detail)
        assert [job.payload for job in jobs.list(status="failed").jobs] == [{"card": f"{SECRET} fails"}]
        assert detail in str(jobs.attempts(failed)[0].traceback)
        assert detail in str([event.detail for event in jobs.timeline(failed)])
        assert [group.sample for group in jobs.top_errors()] == [detail]
        assert [schedule.arguments for schedule in jobs.schedules()] == [{"card": SECRET}]
        with pytest.raises(JobFailed, match=detail):
            jobs.result(failed)
        assert [(one.arguments, one.error_detail) for one in seen] == [({"card": f"{SECRET} fails"}, detail)]

    def test_a_large_payload_is_encrypted_in_its_blob(self, open_app: Open) -> None:
        jobs, charge, _ = open_app(NEW)
        job = charge.enqueue(LARGE)
        blobs = queue_of(jobs).blobs.store
        assert not any(SECRET.encode() in blobs.get(digest) for digest in blobs.digests(-1))
        assert jobs.drain().succeeded == 1
        assert not any(SECRET.encode() in blobs.get(digest) for digest in blobs.digests(-1))
        assert (jobs.get(job).payload, jobs.get(job).result) == ({"card": LARGE}, f"charged {LARGE}")

    def test_jobs_from_before_encryption_run_and_jobs_of_an_older_key_too(self, open_app: Open) -> None:
        plain, old = open_app().charge.enqueue(SECRET), open_app(OLD).charge.enqueue(SECRET)
        jobs = open_app(NEW, OLD).jobs
        assert jobs.drain().succeeded == 2
        assert [jobs.get(job).result for job in (plain, old)] == [f"charged {SECRET}"] * 2

    @pytest.mark.parametrize("by_hand", [False, True])
    @pytest.mark.parametrize("keys", [(OLD,), ()], ids=["another key", "no key"])
    def test_a_worker_without_the_key_fails_the_job_at_once(
        self, open_app: Open, keys: tuple[str, ...], by_hand: bool
    ) -> None:
        job = open_app(NEW).charge.using(max_attempts=5).enqueue(SECRET)
        jobs = open_app(*keys).jobs
        if by_hand:
            assert [one for one in jobs.claim("hand") if one.type == "charge"] == []
        else:
            assert jobs.drain(concurrency=1).failed >= 1
        found = open_app(NEW, OLD).jobs.get(job)
        assert (found.status, found.attempt, found.error_code) == (Status.FAILED, 1, CODE)
        assert found.error_detail is not None
        assert "cannot decrypt: " in found.error_detail
        jobs = open_app(NEW).jobs
        assert jobs.retry(error_code=CODE, type="charge") == 1
        jobs.drain()
        assert jobs.get(job).status is Status.SUCCEEDED

    def test_a_reader_without_the_key_sees_the_rest_of_the_job(self, open_app: Open) -> None:
        job = open_app(NEW).charge.enqueue(SECRET)
        for keys in ((), (OLD,)):
            found = open_app(*keys).jobs.get(job)
            assert (found.type, found.status, list(found.payload)) == (
                "charge",
                Status.PENDING,
                ["__rowcall_encrypted__"],
            )

    @pytest.mark.parametrize("keys", [(OLD,), ()], ids=["another key", "no key"])
    @pytest.mark.parametrize("card", [SECRET, LARGE], ids=["small", "large"])
    def test_arguments_are_not_edited_without_the_key(
        self, open_app: Open, store: Store, keys: tuple[str, ...], card: str
    ) -> None:
        job = open_app(NEW).charge.using(delay=60).enqueue(card)
        jobs = open_app(*keys).jobs
        with pytest.raises(CannotDecrypt, match="cannot decrypt: "):
            jobs.edit(job, {"card": "4222-2222"}, tags=["vip"])
        with jobs.transaction() as transaction, pytest.raises(CannotDecrypt):
            jobs.edit(job, {"card": "4222-2222"}, connection=transaction)
        assert jobs.edit(job, tags=["vip"]).tags == ("vip",)
        known = open_app(OLD, NEW).jobs
        assert known.get(job).payload == {"card": card}
        assert known.edit(job, {"card": "4222-2222"}).payload == {"card": "4222-2222"}
        assert "4222" not in self.texts_in(store)

    def test_a_follow_up_is_not_edited_without_the_key(self, open_app: Open) -> None:
        jobs, charge, _ = open_app(NEW)
        charge.enqueue(SECRET)
        jobs.fail(jobs.claim("hand")[0], "CARD:REFUSED", SECRET)
        [job] = jobs.list(type="refused").jobs
        for keys in ((), (OLD,)):
            with pytest.raises(CannotDecrypt):
                open_app(*keys).jobs.edit(job, job.payload)
        assert jobs.edit(job, job.payload).payload == job.payload

    def test_a_lost_payload_can_be_replaced(self, open_app: Open) -> None:
        jobs, charge, _ = open_app(NEW)
        job = charge.enqueue(LARGE)
        blobs = queue_of(jobs).blobs.store
        for digest in list(blobs.digests(-1)):
            blobs.delete(digest, -1)
        assert jobs.edit(job, {"card": SECRET}).payload == {"card": SECRET}

    def test_rekey_encrypts_everything_with_the_first_key(self, open_app: Open, store: Store) -> None:
        plain = open_app().charge.enqueue(f"{SECRET} fails")
        old = open_app(OLD)
        jobs: list[Job] = [plain, old.charge.enqueue(SECRET), old.charge.enqueue(LARGE)]
        old.jobs.add_schedule("nightly", "charge", {"card": SECRET}, cron="0 3 * * *")
        old.jobs.drain()
        waiting = open_app().charge.enqueue(SECRET)
        assert open_app(NEW).jobs.rekey().unreadable > 0
        both = open_app(NEW, OLD).jobs
        rekeyed = both.rekey()
        assert (rekeyed.checked, rekeyed.unreadable) == (12, 0)
        assert both.rekey() == Rekeyed(checked=12, rekeyed=0, unreadable=0)
        assert SECRET not in self.texts_in(store)
        collect_blobs(queue_of(both), grace_seconds=-1)
        new = open_app(NEW).jobs
        assert [new.get(job).payload["card"] for job in (*jobs, waiting)] == [f"{SECRET} fails", SECRET, LARGE, SECRET]
        assert [*new.stream(plain)] == [{"card": f"{SECRET} fails"}]
        assert new.log(plain)[0].message == f"charging {SECRET} fails"
        assert SECRET not in open_app().jobs.log(plain)[0].message
        with pytest.raises(CannotDecrypt):
            next(open_app().jobs.stream(plain))
        assert new.get(plain).error_detail == f"{SECRET} fails was refused"
        assert new.drain().succeeded == 1
        assert [schedule.arguments for schedule in new.schedules()] == [{"card": SECRET}]
        blobs = queue_of(new).blobs.store
        assert len([*blobs.digests(-1)]) == 2  # the payload and the result, with the new key only

    def test_rekey_leaves_a_row_alone_that_changes_meanwhile(self, open_app: Open, store: Store) -> None:
        old = open_app(OLD)
        job = old.charge.enqueue(SECRET)
        both = open_app(NEW, OLD).jobs
        blobs, edited = queue_of(both).blobs, list[Job]()
        stored = blobs.stored

        def edit_first(task: str, text: str, kind: Kind) -> str:
            if not edited:
                edited.append(old.jobs.edit(job, {"card": "another"}))
            return stored(task, text, kind)

        blobs.stored = edit_first  # type: ignore[assignment, method-assign]
        assert both.rekey().rekeyed == 1
        assert open_app(NEW).jobs.get(job).payload == {"card": "another"}

    def test_arguments_cannot_be_searched_and_the_wrong_use_is_refused(self, open_app: Open) -> None:
        jobs = open_app(NEW).jobs
        for act in (jobs.list, jobs.cancel):
            with pytest.raises(InvalidOption, match="payload cannot be searched: arguments are encrypted"):
                act(payload={"card": SECRET})
        with pytest.raises(InvalidOption, match="needs keys"):
            open_app().jobs.rekey()

    def test_what_was_changed_in_the_row_is_not_decrypted(self, open_app: Open, store: Store) -> None:
        jobs, charge, _ = open_app(NEW)
        job = charge.enqueue(SECRET)
        ((payload,),) = store.execute(f"select payload from rowcall_job where id = {job.id}")
        text = payload if isinstance(payload, str) else json.dumps(payload)
        damaged = text[:-6] + ("A" if text[-6] != "A" else "B") + text[-5:]
        store.execute(f"update rowcall_job set payload = '{damaged}' where id = {job.id}")
        with pytest.raises(CannotDecrypt, match="the text was changed"):
            queue_of(jobs).blobs.decrypted(damaged, "charge", Kind.ARGUMENTS)
        jobs.drain()
        assert (jobs.get(job).status, jobs.get(job).error_code) == (Status.FAILED, CODE)

    def column(self, store: Store, job: Job, name: str) -> str:
        ((value,),) = store.execute(f"select {name} from rowcall_job where id = {job.id}")
        return value if isinstance(value, str) else json.dumps(value)

    def put(self, store: Store, job: Job, name: str, text: str) -> None:
        store.execute(f"update rowcall_job set {name} = '{text}' where id = {job.id}")

    def test_a_value_is_not_read_in_the_place_of_another(self, open_app: Open, store: Store) -> None:
        jobs, charge, _ = open_app(NEW)

        @jobs.task(max_attempts=1)
        def refund(card: str) -> str:
            return card

        done, other, waiting = charge.enqueue(SECRET), refund.enqueue("another"), refund.enqueue("third")
        jobs.drain()
        jobs.retry(waiting)
        result, arguments = self.column(store, done, "result"), self.column(store, done, "payload")
        self.put(store, done, "payload", result)  # another column
        self.put(store, other, "result", result)  # another task
        self.put(store, waiting, "payload", arguments)
        assert list(jobs.get(done).payload) == ["__rowcall_encrypted__"]
        assert SECRET not in str(jobs.get(other))
        with pytest.raises(CannotDecrypt, match="for another queue, task or kind of value than result of 'refund'"):
            jobs.result(other)
        jobs.drain()
        assert (jobs.get(waiting).status, jobs.get(waiting).error_code) == (Status.FAILED, CODE)

    def test_a_value_of_another_queue_is_not_read_and_the_id_of_a_queue_moves_with_it(
        self, open_app: Open, store: Store
    ) -> None:
        job = open_app(NEW).charge.enqueue(SECRET)
        ((mine,),) = store.execute("select value from rowcall_setting where name = 'queue_id'")
        store.execute("update rowcall_setting set value = 'another' where name = 'queue_id'")
        assert SECRET not in str(open_app(NEW).jobs.get(job))
        store.execute("delete from rowcall_setting where name = 'queue_id'")
        assert SECRET not in str(open_app(NEW).jobs.get(job))
        store.execute(f"update rowcall_setting set value = '{mine}' where name = 'queue_id'")
        assert open_app(NEW).jobs.get(job).payload == {"card": SECRET}

    def test_an_encrypted_text_that_someone_writes_into_another_text_is_not_decrypted(
        self, open_app: Open, store: Store
    ) -> None:
        jobs, charge, seen = open_app(NEW)
        jobs.get(failed := charge.enqueue(f"{SECRET} fails"))
        jobs.drain()
        token = self.column(store, failed, "error_detail")
        cancelled = charge.enqueue("another")
        jobs.cancel(cancelled, reason=token)
        self.put(store, cancelled, "error_detail", f"see {token}")
        assert SECRET not in str([jobs.get(cancelled), jobs.timeline(cancelled), jobs.attempts(cancelled)])
        assert token in str(jobs.timeline(cancelled))
        outcome = msgspec.to_builtins(msgspec.structs.replace(seen[0], error_detail=token))
        again = jobs.enqueue("refused", {"job": {**outcome, "id": 99}})
        jobs.drain()
        assert (seen[-1].id, seen[-1].error_detail) == (99, token)
        assert jobs.get(again).payload["job"] == {**outcome, "id": 99}

    def test_plain_values_are_refused_where_encryption_is_required(self, open_app: Open, store: Store) -> None:
        jobs, charge, seen = open_app(NEW, require=True)

        @jobs.task(max_attempts=1)
        def stepwise(ctx: Context, card: str) -> str:
            return ctx.step("first", lambda: card) + str(ctx.wait_for("paid"))

        done, failed = charge.enqueue(SECRET), charge.enqueue(f"{SECRET} fails")
        chain = jobs.start_chain([charge.bind(SECRET), charge.bind("second")])
        stepped, tricked = stepwise.enqueue(SECRET), stepwise.enqueue(SECRET)
        jobs.drain()
        jobs.signal(stepped, "paid", 5)
        jobs.signal(tricked, "paid", 5)
        store.execute(f"update rowcall_step set result = '\"plain\"' where job_id = {tricked.id} and kind = 'step'")
        jobs.drain()
        assert (jobs.result(done), jobs.result(stepped)) == (f"charged {SECRET}", f"{SECRET}5")
        assert jobs.result(chain) == "charged second"
        assert [one.arguments for one in seen] == [{"card": f"{SECRET} fails"}]
        assert jobs.get(failed).error_detail == f"{SECRET} fails was refused"
        assert (jobs.get(tricked).status, jobs.get(tricked).error_code) == (Status.FAILED, CODE)

        plain = open_app().charge.enqueue("plain")
        self.put(store, done, "result", '"plain"')
        assert "'plain'" not in str([jobs.get(plain), jobs.get(done)])
        with pytest.raises(CannotDecrypt, match=r"Encryption\(require=True\) refuses it"):
            jobs.result(done)
        assert (jobs.rekey().rekeyed, jobs.rekey().unreadable) == (1, 3)  # the follow-up
        jobs.drain()
        assert (jobs.get(plain).status, jobs.get(plain).error_code) == (Status.FAILED, CODE)
        by_hand = open_app().charge.enqueue("plain")
        assert [job for job in jobs.claim("hand") if job.type == "charge"] == []
        assert jobs.get(by_hand).error_code == CODE

    def test_values_that_are_completed_by_hand_are_bound_to_their_task(self, open_app: Open) -> None:
        jobs, charge, _ = open_app(NEW)
        later = charge.using(delay=3600)
        job, chain = later.enqueue(SECRET), jobs.start_chain([later.bind(SECRET), charge.bind(SECRET)])
        jobs.complete(job.id, result=SECRET)
        assert jobs.complete_chain(chain, result=SECRET).result == SECRET
        assert (jobs.result(job.id), jobs.result(chain)) == (SECRET, SECRET)
        assert [one.result for one in jobs.list_chains().chains] == [SECRET]

    def test_a_handler_sees_the_error_of_the_last_attempt(self, open_app: Open, clock: FakeClock) -> None:
        jobs = open_app(NEW, require=True).jobs
        seen: list[tuple[dict[str, object], str | None]] = []

        @jobs.task(max_attempts=2, retry=Backoff.constant(1))
        def twice(ctx: Context, card: str) -> None:
            seen.append((ctx.job.payload, ctx.job.error_detail))
            raise ValueError(f"{card} was refused")

        job = twice.enqueue(SECRET)
        jobs.drain()
        clock.advance(10)
        jobs.drain()
        assert seen == [({"card": SECRET}, None), ({"card": SECRET}, f"{SECRET} was refused")]
        assert [attempt.error_detail for attempt in jobs.attempts(job)] == [f"{SECRET} was refused"] * 2
        assert [group.sample for group in jobs.top_errors()] == [f"{SECRET} was refused"]

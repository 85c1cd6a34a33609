"""What a type checker sees: one run of mypy over right calls and wrong ones."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from mypy import api

import rowcall

PROGRAM = """
import asyncio
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, assert_type

from rowcall import INJECTED, Backoff, Chain, Context, Depends, Job, JobOutcome, Rowcall, Stats
from rowcall.middleware import AsyncCallNext, CallNext, Middleware, soft_timeout

jobs = Rowcall("sqlite:///app.db")


@jobs.task
def send_email(to: str, subject: str = "hi") -> int:
    return 1


@jobs.task(queue="media", max_attempts=3, retry=Backoff.exponential(2, cap=600), timeout=120)
async def thumbnail(ctx: Context, path: Path, size: int = 256) -> str:
    return "x"


@jobs.task(retry=lambda attempt, error: 2.0 * attempt)
def flaky() -> None: ...


@jobs.schedule("0 9 * * *", tz="Europe/Berlin", catch_up="all")
@jobs.task
def digest(ctx: Context, copies: int = 1) -> int:
    return copies


@jobs.task(batch=100, batch_wait=0.5, queue="search")
def index(ctx: Context, items: list[dict[str, int]]) -> list[int]:
    return [len(ctx.jobs)]


@jobs.task(isolation="process", memory_limit="512MB")
def render(pages: int) -> None: ...


@jobs.task
def order(ctx: Context, number: int) -> None:
    ctx.continue_with(send_email, "a@example.com", subject="hi")
    ctx.continue_with(thumbnail.using(delay=60), Path("a.png"), size=64)
    ctx.continue_with("by_name", anything=1)


@jobs.middleware
def timed(ctx: Context[dict[str, int]], call_next: CallNext) -> object:
    return call_next()


async def atimed(ctx: Context, call_next: AsyncCallNext) -> object:
    return await call_next()


def session(path: Annotated[Path, Depends(Path.cwd)]) -> Iterator[Path]:
    yield path


@jobs.task(middleware=[atimed, Middleware(timed, atimed), soft_timeout(60)])
async def charge(order_id: int, *, session: Annotated[Path, Depends(session)] = INJECTED) -> Path:
    assert_type(session, Path)
    return session


@jobs.task
def without_default(order_id: int, session: Annotated[Path, Depends(session)]) -> None: ...


@send_email.on_failure
def email_failed(job: JobOutcome) -> int:
    assert_type(job.arguments, dict[str, object])
    return job.attempt


@send_email.on_success(queue="reports", max_attempts=3)
async def email_sent(ctx: Context, job: JobOutcome) -> None: ...


@jobs.on("failed")
def observe(job: JobOutcome) -> None: ...


# right: no error below
jobs.on("recovered", observe)
flaky.on_failure(cancelled=True)(email_sent)
assert_type(email_failed(JobOutcome(id=1, type="a", queue="b", event="failed", attempt=1, max_attempts=1)), int)
jobs.middleware(atimed)
assert_type(charge.enqueue(7), Job[Path])
without_default(7, session=Path("a"))
jobs.enqueue("without_default", {"order_id": 7})
with jobs.override(session, Path.cwd):
    jobs.drain()
send_email.enqueue_many([{"to": "a"}, send_email.using(priority=1).bind("b")])
digest.enqueue(copies=2)
reveal_type(send_email.enqueue("a@example.com"))
send_email.enqueue("a@example.com", subject="Order confirmed")
send_email.using(priority=10, delay=60, tags=["a"]).enqueue("a@example.com", "x")
send_email.using(delay=timedelta(minutes=1), retry=Backoff.linear(5)).enqueue(to="a@example.com")
thumbnail.enqueue(Path("a.png"))
thumbnail.enqueue(Path("a.png"), size=64)
flaky.enqueue()
render.enqueue(3)
index.using(priority=1).enqueue(number=5)
reveal_type(index.enqueue(number=5))
reveal_type(send_email("a@example.com"))
reveal_type(send_email.enqueue_many([{"to": "a"}]))
reveal_type(jobs.enqueue("send_email", {"to": "a"}, priority=10))
jobs.error_code(KeyError, "LOOKUP:FAILED")


@jobs.error_code(OSError)
def code_of(error: OSError) -> str:
    return f"OS:{error.errno}"


@jobs.lifespan
def resources() -> Iterator[dict[str, int]]:
    yield {}


@jobs.task
async def with_resources(ctx: Context[dict[str, int]], name: str) -> int:
    assert_type(ctx.resources, dict[str, int])
    return ctx.resources[name]


async def use(ctx: Context) -> None:
    assert_type(ctx.resources, object)
    assert_type(with_resources.enqueue("a"), Job[int])
    reveal_type(await send_email.aenqueue("a@example.com"))
    reveal_type(await thumbnail.using(priority=1).aenqueue(Path("a.png"), 64))
    reveal_type(await send_email.aenqueue_many([{"to": "a"}]))
    reveal_type(await thumbnail(ctx, Path("a.png")))
    assert_type(jobs.get(1), Job)
    assert_type(jobs.cancel(1, "why"), Job)
    assert_type(jobs.cancel(queue="mail", reason="why"), int)
    assert_type(await jobs.aretry(1), Job)
    assert_type(await jobs.aretry(error_code="A:*", rate=5), int)
    assert_type(jobs.stats(window=timedelta(hours=1)), Stats)
    assert_type(await jobs.astats(), Stats)
    assert_type(jobs.list(status="failed", limit=5).jobs, list[Job])
    assert_type(await jobs.adequeue("hand", queues=["mail"]), Job | None)
    assert_type(await jobs.aclaim("hand", limit=2), list[Job])
    assert_type(await asyncio.to_thread(jobs.get, 1), Job)
    assert_type(await asyncio.to_thread(jobs.claim, "hand", lease=5), list[Job])


async def read_results(ctx: Context, chain: Chain) -> None:
    job = send_email.enqueue("a@example.com")
    assert_type(job, Job[int])
    assert_type(jobs.result(job, timeout=5), int)
    assert_type(await jobs.aresult(job), int)
    assert_type(jobs.result(thumbnail.enqueue(Path("a.png"))), str)
    assert_type(await jobs.aresult(await thumbnail.aenqueue(Path("a.png"))), str)
    assert_type(jobs.result(send_email.enqueue_many([{"to": "a"}])[0]), int)
    assert_type(jobs.result(chain), object)
    assert_type(jobs.result(1), object)
    assert_type(jobs.result(jobs.get(1)), Any)
    job = jobs.get(job.id)
    assert_type(job, Job[int])
    assert_type(jobs.get(job), Job[int])
    assert_type(await jobs.aget(job), Job[int])
    assert_type(jobs.cancel(job), Job[int])
    assert_type(jobs.reschedule(job, delay=5), Job[int])
    assert_type(await jobs.aset_priority(job, 3), Job[int])
    assert_type(jobs.set_priority(1, 3), Job)
    assert_type(jobs.edit(job, {"to": "b@example.com"}, priority=3), Job[int])
    assert_type(await jobs.aedit(1, tags=["vip"]), Job)
    assert_type(ctx.previous, object)
    assert_type(ctx.previous_as(list[int]), list[int])
    assert_type(ctx.blockers_as(Path), list[Path | None])
    assert_type(await ctx.aprevious(), object)
    assert_type(await ctx.aprevious(int), int)
    assert_type(await ctx.ablockers(), list[object])
    assert_type(await ctx.ablockers(int), list[int | None])


def tip_and_charge(order_id: int, *, tip: float = 0) -> Path:
    return Path()


async def fetch(url: str, tries: int = 1) -> dict[str, int]:
    return {}


def made_of_steps(ctx: Context) -> None:
    assert_type(ctx.step("charge", tip_and_charge, 5, tip=0.5), Path)
    assert_type(ctx.step("retried", tip_and_charge, 5, retry=Backoff.linear(5)), Path)
    assert_type(ctx.step("in mine", tip_and_charge, 5, connection=object()), Path)
    ctx.sleep(timedelta(days=3))
    answer = ctx.wait_for("confirmed", timeout=5)
    answer["by"]
    path: Path = ctx.wait_for("path", Path, timeout=5)
    ctx.wait_for("path", Path).parent
    assert_type(ctx.gather(ctx.step("a", tip_and_charge, 1), ctx.step("b", len, "x")), tuple[Path, int])


async def made_of_async_steps(ctx: Context) -> None:
    assert_type(await ctx.step("fetch", fetch, "x", tries=2), dict[str, int])
    assert_type(await ctx.step("retried", fetch, "x", retry=lambda failures, error: 5.0), dict[str, int])
    await ctx.sleep(5)
    answer = await ctx.wait_for("confirmed")
    answer["by"]
    assert_type(await ctx.wait_for("path", Path, timeout=5), Path)
    assert_type(await ctx.gather(ctx.wait_for("n", int), ctx.step("f", fetch, "x")), tuple[int, dict[str, int]])
    assert_type(
        await ctx.gather(ctx.step("a", fetch, "x"), ctx.step("b", asyncio.sleep, 0, "y")), tuple[dict[str, int], str]
    )
    assert_type(await ctx.gather(*(ctx.step(name, fetch, name) for name in "ab")), tuple[dict[str, int], ...])
    jobs.signal(1, "confirmed", {"by": "ann"})


# wrong: an error on each line below
jobs.error_code(KeyError, 404)  # call-overload
jobs.error_code(int)  # type-var
jobs.task(isolation="fork")  # call-overload
jobs.task(middleware=[3])  # list-item
jobs.middleware(3)  # type-var
charge.enqueue("7")  # arg-type
charge.enqueue()  # call-arg
without_default.enqueue(7)  # call-arg
jobs.override(session, 3)  # arg-type
Depends(session, scope="request")  # arg-type
jobs.task(batch="many")  # call-overload
jobs.task(batch_wait=1)  # call-overload
render.enqueue("3")  # arg-type
send_email.enqueue(42)  # arg-type
send_email.enqueue()  # call-arg
send_email.enqueue("a", cc="b")  # call-arg
send_email.enqueue("a", subject=None)  # arg-type
send_email.using(priority=3).enqueue(42)  # arg-type
send_email.using(priority="high")  # arg-type
send_email.using(prority=3)  # call-arg
send_email.using(retry=lambda attempt, error: 5.0)  # arg-type
thumbnail.enqueue("a.png")  # arg-type
digest.enqueue(copies="two")  # arg-type
jobs.schedule("0 9 * * *", catch_up="two")  # arg-type
thumbnail.enqueue(Path("a.png"), size="large")  # arg-type
thumbnail.using(delay=5).enqueue(5)  # arg-type
send_email(42)  # arg-type
asyncio.run(send_email.aenqueue(42))  # arg-type
jobs.enqueue("send_email", {"to": "a"}, nonsense=1)  # call-arg
jobs.cancel("mail")  # call-overload
jobs.cancel(1, queue="mail")  # call-overload
jobs.retry(kye="x")  # call-overload
jobs.stats(60)  # call-arg
jobs.list(quue="mail")  # call-arg
jobs.list(queue=3)  # arg-type
asyncio.run(jobs.adequeue())  # call-arg


def pass_context(ctx: Context) -> None:
    thumbnail.enqueue(ctx, Path("a.png"))  # arg-type
    ctx.continue_with(send_email, 42)  # call-overload
    ctx.continue_with(thumbnail.using(delay=1))  # call-overload
    ctx.continue_with(send_email, "a", cc="b")  # call-arg
    ctx.continue_with("by_name", 1)  # call-overload
    ctx.step("charge", tip_and_charge, "5")  # arg-type
    ctx.step("fetch", fetch, 5)  # arg-type
    ctx.wait_for("confirmed", 5)  # call-overload
    jobs.on("fail", observe)  # call-overload
    jobs.on("failed", send_email)  # call-overload
    send_email.on_success(cancelled=True)  # call-overload
"""

REVEALED = [
    "rowcall.domain.job.Job[int]",
    "rowcall.domain.job.Job[object]",
    "int",
    "list[rowcall.domain.job.Job[int]]",
    "rowcall.domain.job.Job[Any]",
    "rowcall.domain.job.Job[int]",
    "rowcall.domain.job.Job[str]",
    "list[rowcall.domain.job.Job[int]]",
    "str",
]


class Findings:
    """What mypy said, by line of the program."""

    def __init__(self, output: str) -> None:
        self.output = output
        self.errors: dict[int, set[str]] = {}
        self.revealed: list[str] = []
        for line in output.splitlines():
            if found := re.search(r":(\d+): error: .*\[([a-z-]+)\]$", line):
                self.errors.setdefault(int(found[1]), set()).add(found[2])
            elif found := re.search(r'note: Revealed type is "(.*)"$', line):
                self.revealed.append(found[1].replace("builtins.", ""))


def check(text: str, folder: Path) -> Findings:
    program = folder / "program.py"
    program.write_text(text)
    settings = folder / "mypy.ini"
    settings.write_text("[mypy]\nstrict = True\n")
    output, problems, _ = api.run(["--config-file", str(settings), "--cache-dir", str(folder / "cache"), str(program)])
    assert problems == ""
    return Findings(output)


def expected_errors() -> dict[int, set[str]]:
    wrong = PROGRAM[: PROGRAM.index("# wrong")].count("\n") + 1
    return {
        number: {line.rpartition("# ")[2]}
        for number, line in enumerate(PROGRAM.splitlines(), 1)
        if number > wrong and "  # " in line
    }


@pytest.mark.slow
def test_wrong_calls_are_type_errors_right_ones_are_not_and_jobs_come_back(tmp_path: Path) -> None:
    findings = check(PROGRAM, tmp_path)
    assert findings.errors == expected_errors(), findings.output
    assert len(findings.errors) == 47
    assert findings.revealed == REVEALED


def test_the_package_is_marked_as_typed() -> None:
    assert (Path(rowcall.__file__).parent / "py.typed").exists()

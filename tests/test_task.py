"""Declaring tasks."""

from __future__ import annotations

import inspect
import os
import pydoc
from collections.abc import Iterator
from pathlib import Path

import pytest

from rowcall import Context, DuplicateTask, InvalidArguments, InvalidOption, Rowcall, UnknownTask
from rowcall.app import queue_of
from tests.support import PythonProcess


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[Rowcall]:
    with Rowcall(tmp_path / "app.db") as jobs:
        yield jobs


def help_on(value: object) -> str:
    return pydoc.plain(pydoc.render_doc(value))


def test_calling_a_task_simply_calls_the_function(jobs: Rowcall) -> None:
    @jobs.task
    def add(a: int, b: int = 1) -> int:
        """Add two numbers."""
        return a + b

    assert add(1) == 2
    assert add(1, b=5) == 6
    assert add.__doc__ == "Add two numbers."
    assert add.__wrapped__(1, 1) == 2
    assert jobs.list().jobs == []


def test_repr_and_help_show_the_function(jobs: Rowcall) -> None:
    @jobs.task(name="sum")
    def add(a: int, b: int = 1) -> int:
        """Add two numbers."""
        return a + b

    @jobs.task
    async def wait(seconds: float) -> None: ...

    assert repr(add) == f"<task 'sum': {__name__}.{add.__qualname__}>"
    assert help_on(add).endswith("\nadd(a: 'int', b: 'int' = 1) -> 'int'\n    Add two numbers.\n")
    assert help_on(wait).endswith("wait(seconds: 'float') -> 'None'\n")
    assert str(inspect.signature(add)) == "(a: 'int', b: 'int' = 1) -> 'int'"


def test_a_task_in_a_class_body_is_the_task(jobs: Rowcall) -> None:
    class Holder:
        send = jobs.task(name="send")(lambda: 5)

    assert Holder.send is Holder().send
    assert Holder().send() == 5


def test_a_task_with_a_context_is_called_with_one(jobs: Rowcall) -> None:
    @jobs.task
    def attempt(ctx: Context, number: int) -> tuple[int, int]:
        return ctx.job.attempt, number

    job = attempt.enqueue(7)
    assert job.payload == {"number": 7}
    assert jobs.drain().succeeded == 1
    assert jobs.get(job.id).result == [1, 7]


def test_a_name_is_the_functions_own_unless_given(jobs: Rowcall) -> None:
    @jobs.task
    def one() -> None: ...

    @jobs.task()
    def two() -> None: ...

    @jobs.task(name="mail.send")
    def three() -> None: ...

    assert [one.name, two.name, three.name] == ["one", "two", "mail.send"]
    assert sorted(queue_of(jobs).declared.tasks) == ["mail.send", "one", "two"]
    assert three.enqueue().type == "mail.send"


def test_two_tasks_of_one_name_are_refused_when_the_second_is_declared(jobs: Rowcall) -> None:
    @jobs.task
    def send() -> None: ...

    with pytest.raises(DuplicateTask, match=r"a task named 'send' is already declared; .* task\(name=…\)") as caught:
        jobs.task(name="send")(lambda: None)
    assert caught.value.task == "send"
    assert queue_of(jobs).declared.tasks["send"].function is send.__wrapped__


def test_two_queues_may_have_tasks_of_one_name(jobs: Rowcall, tmp_path: Path) -> None:
    other = Rowcall(tmp_path / "other.db")
    for queue in (jobs, other):
        queue.task(name="send")(lambda: None)


def test_an_option_given_as_an_argument_is_refused_with_where_it_goes(jobs: Rowcall) -> None:
    @jobs.task
    def add(a: int, b: int = 0) -> int:
        return a + b

    with pytest.raises(InvalidArguments) as caught:
        add.enqueue(1, priority=3)  # type: ignore[call-arg]
    assert str(caught.value) == "add: unexpected argument 'priority'; options go into using(priority=…)"
    with pytest.raises(InvalidArguments, match=r"^add: unexpected argument 'bb' \(did you mean 'b'\?\)$"):
        add.enqueue(1, bb=3)  # type: ignore[call-arg]


def test_a_task_cannot_be_a_task_again(jobs: Rowcall) -> None:
    @jobs.task
    def send() -> None: ...

    with pytest.raises(InvalidOption, match="'send' is already a task"):
        jobs.task(name="again")(send)


def test_a_task_that_is_not_declared_here_is_named_with_those_that_are(jobs: Rowcall) -> None:
    jobs.task(name="a")(lambda: None)
    jobs.task(name="b")(lambda: None)
    with pytest.raises(UnknownTask, match="unknown task 'c'; declared here: a, b"):
        jobs.declared_task("c")
    assert jobs.declared_task("a").name == "a"


DECLARE_ONLY = """
import os, sys
from rowcall import Rowcall
jobs = Rowcall()

@jobs.task
def send(to: str) -> None: ...

assert os.listdir(".") == [], os.listdir(".")
if "use" in sys.argv:
    send.enqueue("a")
    print(sorted(os.listdir(".")))
"""


def test_importing_declares_and_opens_nothing(tmp_path: Path) -> None:
    with PythonProcess("-c", DECLARE_ONLY, cwd=str(tmp_path)) as process:
        assert process.wait() == 0, process.output
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("url", "name"), [(None, "rowcall.db"), ("sqlite:///mine.db", "mine.db")])
def test_without_a_url_the_environment_names_the_file(tmp_path: Path, url: str | None, name: str) -> None:
    environment = {"PYTHONPATH": os.environ.get("PYTHONPATH", "")} | ({} if url is None else {"ROWCALL_URL": url})
    with PythonProcess("-c", DECLARE_ONLY, "use", cwd=str(tmp_path), env=environment) as process:
        assert process.wait() == 0, process.output
    with Rowcall(tmp_path / name) as jobs:
        assert [job.payload for job in jobs.list().jobs] == [{"to": "a"}]

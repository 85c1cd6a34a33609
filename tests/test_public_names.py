"""What users import: every error and every type they can receive, under the name of the package."""

from __future__ import annotations

import pickle
import sys
import traceback
import typing
from pathlib import Path

import msgspec

import rowcall

CLASSES = [value for name in rowcall.__all__ if isinstance(value := getattr(rowcall, name), type)]


def errors_below(kind: type[BaseException]) -> list[type[BaseException]]:
    return [below for child in kind.__subclasses__() for below in (child, *errors_below(child))]


def test_every_error_is_exported() -> None:
    # what a driver raises next to these is caught in the driver, or is a StoreUnavailable to the caller
    found = [kind for root in (rowcall.RowcallError, rowcall.Control) for kind in errors_below(root)]
    # what a log shows of an exception has a class that is made for it, and is in no module
    found = [kind for kind in found if getattr(sys.modules[kind.__module__], kind.__name__, None) is kind]
    inner = [kind.__name__ for kind in found if kind not in CLASSES and not kind.__module__.startswith("tests.")]
    assert {*inner} <= {"NothingWritten", "OutcomeUnknown", "DiskFull"}


def test_a_public_class_calls_itself_by_its_public_name() -> None:
    for kind in CLASSES:
        assert f"{kind.__module__}.{kind.__qualname__}" == f"rowcall.{kind.__name__}"
        assert pickle.loads(pickle.dumps(kind)) is kind


def test_the_annotations_of_a_value_can_be_read() -> None:
    for kind in CLASSES:
        if issubclass(kind, rowcall.Value):
            assert set(typing.get_type_hints(kind)) >= set(kind.__struct_fields__), kind


def test_a_traceback_names_what_users_catch() -> None:
    said = traceback.format_exception_only(rowcall.JobNotFound(5))
    assert said[0].startswith("rowcall.JobNotFound: ")
    assert repr(rowcall.Job) == "<class 'rowcall.Job'>"


def test_msgspec_still_reads_a_value_by_its_annotations() -> None:
    policy = rowcall.Retention(queues={"mail": rowcall.Retention(failed=None)})
    assert msgspec.json.decode(policy.to_json(), type=rowcall.Retention) == policy
    pause = rowcall.Backoff.linear(5)
    assert msgspec.json.decode(pause.to_json(), type=rowcall.Backoff) == pause


def test_a_public_class_has_a_docstring() -> None:
    assert [kind for kind in CLASSES if not (vars(kind).get("__doc__") or "").strip()] == []


def test_what_users_hold_has_a_repr(tmp_path: Path) -> None:
    jobs = rowcall.Rowcall(tmp_path / "app.db")

    @jobs.task
    def send(to: str) -> None: ...

    flow = jobs.flow()
    flow.add(send.bind("a"))
    assert repr(send.using(priority=3)) == "<task 'send' with priority=3>"
    assert repr(send.bind("a")) == """<'send' bound to '{"to":"a"}'>"""
    assert repr(flow) == "<Flow of 1 jobs, not enqueued yet>"
    assert repr(jobs.transaction()) == f"<Transaction on {tmp_path}/app.db>"
    assert repr(jobs.declared_task("send")) == "<declaration of the task 'send'>"
    assert isinstance(jobs.declared_task("send"), rowcall.Declaration)
    assert repr(jobs.worker(queues="mail=3")).endswith(": concurrency 10, queues mail=3>")

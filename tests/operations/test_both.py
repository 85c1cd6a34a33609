from __future__ import annotations

import asyncio
import inspect
import pydoc

from rowcall.operations.both import both
from rowcall.queue import Operation, Queue


def twice(queue: Queue, /, number: int, *, more: int = 0) -> Operation[list[int]]:
    """Return a number, doubled.

    With `more`, a larger one.
    """
    return [number * 2 + more]
    yield


class Holder:
    def __init__(self) -> None:
        self._queue = Queue(lambda: None)  # type: ignore[arg-type, return-value]

    double, adouble = both(twice, "It may be cancelled.")


def test_both_methods_run_the_operation() -> None:
    assert Holder().double(3, more=1) == [7]
    assert asyncio.run(Holder().adouble(4)) == [8]


def test_both_methods_look_like_written_ones() -> None:
    signature = "(self, number: 'int', *, more: 'int' = 0) -> 'list[int]'"
    assert str(inspect.signature(Holder.double)) == str(inspect.signature(Holder.adouble)) == signature
    assert inspect.iscoroutinefunction(Holder.adouble)
    assert not inspect.iscoroutinefunction(Holder.double)
    assert inspect.getdoc(Holder.double) == inspect.getdoc(twice)
    assert inspect.getdoc(Holder.adouble) == "`double`, for async code. It may be cancelled."
    assert (Holder.adouble.__qualname__, Holder.adouble.__module__) == ("Holder.adouble", __name__)
    shown = pydoc.render_doc(Holder, renderer=pydoc.plaintext)  # type: ignore[attr-defined]
    assert f"double{signature}" in shown
    assert f"async adouble{signature}" in shown


def test_what_was_declared_can_be_used_without_the_object() -> None:
    assert Holder.double(Holder(), 3) == [6]  # type: ignore[arg-type, call-arg]

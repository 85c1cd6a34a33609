from __future__ import annotations

import pytest

from rowcall import InvalidOption, Limit, Rowcall
from rowcall.app import queue_of


def test_a_limit_by_an_argument_that_is_not_there_is_refused_when_declared(jobs: Rowcall) -> None:
    @jobs.task
    def other(customer: str) -> None: ...

    limit = Limit("stripe", concurrency=1, by="customer_id")
    with pytest.raises(InvalidOption, match=r"by='customer_id' is not an argument of charge .*customer, amount"):

        @jobs.task(limit=limit)
        def charge(customer: str, amount: int = 1) -> None: ...

    with pytest.raises(InvalidOption, match="is not an argument of other"):
        other.using(limit=limit)
    with pytest.raises(InvalidOption, match="a limit of a queue cannot have by="):
        jobs.limit_queue("mail", limit)
    assert "charge" not in queue_of(jobs).declared.tasks


def test_two_declarations_that_disagree_are_refused(jobs: Rowcall) -> None:
    @jobs.task(limit=Limit("stripe", concurrency=1))
    def one(customer: str) -> None: ...

    for other in (Limit("stripe", concurrency=2), Limit("stripe", concurrency=1, by="customer")):
        with pytest.raises(InvalidOption, match="'stripe' is declared twice with different values"):

            @jobs.task(limit=other)
            def two(customer: str) -> None: ...

        with pytest.raises(InvalidOption, match="declared twice"):
            one.using(limit=other)
        with pytest.raises(InvalidOption, match="declared twice"):
            jobs.enqueue("three", limit=other)
    with pytest.raises(InvalidOption, match="declared twice"):
        jobs.limit_queue("mail", Limit("stripe", concurrency=2))
    assert list(queue_of(jobs).declared.tasks) == ["one"]
    jobs.limit_queue("mail", Limit("stripe", concurrency=1))


def test_a_queue_is_limited_once(jobs: Rowcall) -> None:
    jobs.limit_queue("mail", [Limit("mail", concurrency=2), Limit("all", concurrency=9)])
    jobs.limit_queue("other", Limit("all", concurrency=9))
    for again in (Limit("mail", concurrency=2), Limit("slow", rate=1, per=1)):
        with pytest.raises(
            InvalidOption, match=f"'mail' is limited twice: by 'mail', 'all', and now by '{again.name}'"
        ):
            jobs.limit_queue("mail", again)
    assert sorted(queue_of(jobs).declared.limits.numbers) == ["all", "mail"]


def test_two_calls_that_disagree_are_refused(jobs: Rowcall) -> None:
    @jobs.task
    def one() -> None: ...

    for _ in range(2):
        one.using(limit=Limit("stripe", concurrency=1)).enqueue()
    with pytest.raises(InvalidOption, match="declared twice"):
        one.using(limit=Limit("stripe", concurrency=2))
    with pytest.raises(InvalidOption, match="declared twice"):
        jobs.enqueue("two", limit=Limit("stripe", concurrency=2))
    with pytest.raises(InvalidOption, match="declared twice"):
        jobs.limit_queue("mail", Limit("stripe", concurrency=2))
    with pytest.raises(InvalidOption, match="by='nothing' is not an argument"):
        one.using(limit=Limit("other", concurrency=1, by="nothing"))
    one.using(limit=Limit("other", concurrency=1)).enqueue()  # what was refused is not remembered
    assert queue_of(jobs).declared.limits.numbers == {}  # the limits of one call apply to that call alone

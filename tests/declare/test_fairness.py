"""What a process declares about fairness and order."""

from __future__ import annotations

import pytest

from rowcall import InvalidOption
from rowcall.declare.declaration import declare
from rowcall.declare.fairness import checked_fair_queue, shared
from rowcall.declare.option_table import Options
from rowcall.domain.fairness import FairBy, OrderedBy, Sharing
from rowcall.store.new_job import NewJob


def send(customer: int, account: str = "main") -> None: ...


def test_a_declaration_knows_its_arguments_and_their_defaults() -> None:
    declared = declare(send, Options(fair_by="customer", ordered_by="account", on_failure="block"))
    assert declared.sharing == Sharing(FairBy("customer", "send"), OrderedBy("account", "send", True, "main"))
    assert declare(send, Options()).sharing is None


def test_an_argument_that_the_task_lacks_is_refused() -> None:
    with pytest.raises(InvalidOption, match=r"fair_by: 'client' is not an argument of send \(arguments: customer, acc"):
        declare(send, Options(fair_by="client"))


def test_the_rule_of_the_queue_comes_before_that_of_the_task() -> None:
    name, of_queue = checked_fair_queue("mail", "customer", None)
    job, order = NewJob(type="send", queue=name), OrderedBy("account", "send")
    assert shared(job, None, None) is job
    assert shared(job, Sharing(FairBy("account", "send"), order), of_queue).shared_by == Sharing(of_queue, order)

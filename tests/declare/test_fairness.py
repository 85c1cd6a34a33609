"""What a process declares about fairness and order."""

from __future__ import annotations

import pytest

from rowcall import InvalidOption
from rowcall.declare.declaration import declare
from rowcall.declare.fairness import declare_fair_queue, shared
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
    declared: dict[str, FairBy] = {}
    declare_fair_queue(declared, "mail", "customer", None)
    of_queue = declared["mail"]
    job, order = NewJob(type="send", queue="mail"), OrderedBy("account", "send")
    assert shared(job, None, None) is job
    assert shared(job, Sharing(FairBy("account", "send"), order), of_queue).shared_by == Sharing(of_queue, order)


def test_a_queue_is_declared_as_fair_once() -> None:
    declared: dict[str, FairBy] = {}
    declare_fair_queue(declared, "mail", "customer", None)
    declare_fair_queue(declared, "other", "account", None)
    with pytest.raises(InvalidOption, match="'mail' is declared as fair twice: by 'customer', and now by 'account'"):
        declare_fair_queue(declared, "mail", "account", {"a": 2})
    assert declared["mail"] == FairBy("customer")

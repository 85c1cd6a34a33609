"""What a process declares about fairness and order, and how it applies to the jobs it enqueues."""

from __future__ import annotations

import msgspec

from rowcall.declare.option_table import Options
from rowcall.domain import checks
from rowcall.domain.errors import InvalidOption
from rowcall.domain.fairness import FairBy, OrderedBy, Sharing, checked_argument, checked_weight
from rowcall.domain.payload import Arguments
from rowcall.store.new_job import NewJob


def sharing_of(options: Options, task: str, arguments: Arguments) -> Sharing | None:
    """Return how the jobs of a task share its workers, or raise `InvalidOption` if the task lacks an argument."""
    fair = order = None
    if options.fair_by is not None:
        missing = _missing("fair_by", options.fair_by, task, arguments)
        fair = FairBy(options.fair_by, task, options.weight, missing)
    if options.ordered_by is not None:
        missing = _missing("ordered_by", options.ordered_by, task, arguments)
        order = OrderedBy(options.ordered_by, task, options.on_failure == "block", missing, options.aliases)
    return None if fair is None and order is None else Sharing(fair, order)


def _missing(option: str, by: str, task: str, arguments: Arguments) -> object:
    """Return the value for a job that does not have the argument."""
    if by not in arguments.names and not arguments.takes_any:
        names = ", ".join(arguments.names) or "none"
        raise InvalidOption(option, f"{by!r} is not an argument of {task} (arguments: {names})")
    return arguments.value_if_missing(by)


def shared(job: NewJob, sharing: Sharing | None, of_queue: FairBy | None) -> NewJob:
    """Return the job with what it shares. The rule of its queue comes before that of its task."""
    if of_queue is not None:
        sharing = Sharing(of_queue, None if sharing is None else sharing.order)
    return job if sharing is None else msgspec.structs.replace(job, shared_by=sharing)


def declare_fair_queue(declared: dict[str, FairBy], queue: object, by: object, weight: object) -> None:
    name, argument = checks.queue("queue", queue), checked_argument("by", by)
    fair = FairBy(argument, weight=None if weight is None else checked_weight("weight", weight))
    known = declared.setdefault(name, fair)
    if known is not fair:
        raise InvalidOption("queue", f"{name!r} is declared as fair twice: by {known.by!r}, and now by {argument!r}")

"""`rowcall retries`: how many jobs have used how many attempts, in total and by type."""

from __future__ import annotations

from rowcall.cli.command import Answer, queue_command
from rowcall.cli.present.console import console, show, show_section
from rowcall.cli.present.text_tables import MOST_ROWS, Table, bar, bar_width, count, first_of, text
from rowcall.cli.target import Target
from rowcall.domain.job import Retries
from rowcall.overview.counts import attempt_groups, retried
from rowcall.overview.formats import share

MOST_COLUMNS = 7


@queue_command("retries", "Show how many jobs have used how many attempts.")
def retries_command(target: Target) -> Answer:
    """Show how many jobs have used how many attempts, in total and by type.

    With --json: {"by_attempts": {"1": 340, "2": 12, …}, "by_type": {"send_email": {"1": 340, …}, …}, "counted_at"}.
    "0" means not run yet; "100" means 100 or more.
    """
    retries = target.jobs.retries()
    return Answer(retries, lambda: _show(retries) if retries.by_attempts else show("no jobs"))


def _show(retries: Retries) -> None:
    show(attempts_table(retries, bar_width(console().width)))
    shown, rest = _types_table(retries)
    show_section("by type, most retried first", shown, omitted=rest)


def attempts_table(retries: Retries, width: int, most: int = MOST_ROWS) -> Table:
    """Return a bar for each number of attempts. The largest numbers share a row if there are more than `most`."""
    shown = Table("attempts", "jobs", "", right=("attempts", "jobs"))
    groups = attempt_groups(list(retries.by_attempts), most)
    counts = {label: sum(retries.by_attempts[number] for number in numbers) for label, numbers in groups.items()}
    largest = max(counts.values(), default=0)
    for label, jobs in counts.items():
        style = "green" if label in ("0", "1") else "yellow"
        shown.add_row(label, jobs, text(f"{bar(jobs, largest, width):{width}}", style))
    return shown


def _types_table(retries: Retries) -> tuple[Table, str]:
    groups = attempt_groups(list(retries.by_attempts), MOST_COLUMNS)
    shown = Table("type", *groups, "retried", right=(*groups, "retried"))
    tasks = sorted(retries.by_type, key=lambda task: (-retried(retries.by_type[task]), task))
    rows, omitted = first_of(tasks)
    for task in rows:
        counts = retries.by_type[task]
        again = retried(counts)
        cells = [count(sum(counts.get(number, 0) for number in group)) for group in groups.values()]
        shown.add_row(task, *cells, text(share(again, sum(counts.values())), "yellow" if again else "dim"))
    return shown, omitted

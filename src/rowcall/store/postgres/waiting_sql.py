"""Statements about those who wait for the end of a job."""

from __future__ import annotations

from rowcall.domain.job import FINISHED
from rowcall.store.postgres.words import render

_FINISHED = ", ".join(f"'{status.value}'" for status in FINISHED)
# of a waiter that is alive: it says so again three times in that time
_UNTIL = "<now> + interval '60 seconds'"


class WaitingSql:
    """The statements, rendered for one prefix."""

    def __init__(self, prefix: str) -> None:
        for name, template in statements().items():
            setattr(self, name, render(template, prefix))

    wait_for = f"""
        insert into <waiter> (name, job_id, until)
        select $2::text, given.id, {_UNTIL} from unnest($3::text::bigint[]) as given (id)
        on conflict (name, job_id) do update set until = excluded.until"""
    wait_no_more = "delete from <waiter> where name = $1::text and job_id = any ($2::text::bigint[])"
    forget_waiters = """
        delete from <waiter> where (name, job_id) in (
          select name, job_id from <waiter> where until < (select <now>) for update skip locked)
        returning job_id"""
    # these run on lent connections, too: there every statement has to give rows
    tell_of_ends = """
        select pg_notify('<channel_of_ends>', job_id::text)::text from <waiter>
        where job_id = any ($1::text::bigint[])"""
    tell_of_all_ends = f"""
        select pg_notify('<channel_of_ends>', job_id::text)::text from <waiter> as waiter
        where not exists (select from <job> where id = waiter.job_id and status not in ({_FINISHED}))"""
    # who has changed the row, and may not have committed yet, stands in xmax; so does who has only locked it
    awaited_ends = f"""
        select given.id, (found.id is null or found.status in ({_FINISHED}))::int
        from unnest($1::text::bigint[]) as given (id)
        left join lateral (
          select id, status, xmax::text as changed_by from <job> as job where job.id = given.id) as found on true
        where found.id is null or found.status in ({_FINISHED}) or found.changed_by <> '0'"""


def statements() -> dict[str, str]:
    """The fixed statements, as templates."""
    return {name: text for name, text in vars(WaitingSql).items() if isinstance(text, str) and not name.startswith("_")}

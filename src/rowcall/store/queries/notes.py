"""Notes: what is remembered until a time, by name. A note whose time is over is as good as none."""

from __future__ import annotations

from rowcall.store.statement import Change, Int, Ms, Now, Query, Text, text_from_row

_NOTE = "select value from <note> where name = <text:2> and until > <now>"
NOTE = Query("note", (Now, Text), text_from_row, text=_NOTE)
# Returns a row to the one transaction that writes it. Others wait for its end, and then find it.
_WRITE_NOTE = """
    insert into <note> as note (name, until, value) values (<text:2>, <now> + <interval:3>, <text:4>)
    on conflict (name) do update set until = excluded.until, value = excluded.value where note.until <= <now>
    returning name"""
WRITE_NOTE = Query("write_note", (Now, Text, Ms, Text), text_from_row, text=_WRITE_NOTE)
_CHANGE_NOTE = "update <note> set value = <text:2> where name = <text:1> returning name"
CHANGE_NOTE = Query("change_note", (Text, Text), text_from_row, text=_CHANGE_NOTE)
_PRUNE_NOTES = """
    delete from <note> where name <in_rows>
      select name from <note> where until <= <now> limit <int:2> <for_update> <skip_locked> <end_rows>"""
PRUNE_NOTES = Change("prune_notes", (Now, Int), text=_PRUNE_NOTES)

"""Texts about what needs attention."""

from __future__ import annotations

from rowcall.store.mysql.limits import HELD, HOPS, IN_TURN
from rowcall.store.mysql.words import given

_OF_GIVEN = "<ready> as ready where ready.queue = given.queue and ready.type = given.type"
ready_backlogs = f"""
    select given.queue, given.type, least((select count(*) from {_OF_GIVEN}), $2),
           (select <ms:min(since)> from {_OF_GIVEN})
    from {given("queue text, type text", 1)}"""
held_backlogs = f"""
    {HOPS.format("'limit:'", "$1")}
    select hop.held, least((select count(*) from {HELD} = hop.held), $2), $2,
           (select id from {HELD} = hop.held {IN_TURN} limit 1),
           (select <ms:greatest(run_at, created_at)> from {HELD} = hop.held {IN_TURN} limit 1)
    from hop where hop.held is not null"""
newest_with_error = """
    select id from <job> <indexed:job_error> where status = $1 and error_code = $2 and type = $3
    order by id desc limit $4"""
server_state = """
    select cast(variable_value as signed), @@max_connections, @@read_only
    from /*M! information_schema */ /*!80000 performance_schema */ . global_status
    where variable_name = 'Threads_connected'"""

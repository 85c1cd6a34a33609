"""Texts about jobs."""

from __future__ import annotations

from rowcall.store.mysql.words import TEXT, inserted, time_of

_COLUMNS = (
    "type, queue, payload, status, priority, max_attempts, run_at, created_at, timeout, retry, tags, expires_at,"
    " trace_context, on_end, target, limits, fair, weight, ordered, order_blocks"
)
_DERIVED = ", ".join(
    f"{name} {kind} path '$[{place}]'"
    for place, (name, kind) in enumerate(
        (("limits", TEXT), ("fair", TEXT), ("weight", "int"), ("ordered", TEXT), ("order_blocks", "int")), 1
    )
)

identity = """
    select cast(crc32(@@hostname || @@port || @@datadir) as signed), cast(crc32(database()) as signed),
      (select count(*) from information_schema.tables where table_schema = database() and table_name = '<job>'),
      case concat(@@character_set_client, @@character_set_connection, coalesce(@@character_set_results, 'utf8mb4'))
        when 'utf8mb4utf8mb4utf8mb4' then 'text' end,
      7, 0.5e0"""
insert_plain = inserted("""
    insert into <job> (type, queue, payload, status, run_at, created_at, priority, max_attempts)
    values ($1, $2, $3, <to:enqueue>, <clock>, <clock>, $4, $5)
    returning id, <ms:created_at>, 0""")
insert = inserted(f"""
    insert into <job> ({_COLUMNS})
    select $2, $3, one.payload,
           case when chosen.run_at > chosen.now then <to:postpone> else <to:enqueue> end, $5, $6, chosen.run_at,
           chosen.now, $9, $10, $11, coalesce({time_of("$12")}, chosen.now + <interval:13>), $14, $15, $16,
           case when $17 = 1 then one.limits end, case when $17 = 1 then one.fair end,
           case when $17 = 1 then one.weight end, case when $17 = 1 then one.ordered end,
           case when $17 = 1 then one.order_blocks end
    from (select now, coalesce({time_of("$7")}, now + <interval:8>) as run_at from (select <now> as now) as clock)
      as chosen
    join json_table($4, '$[*]' columns (position for ordinality, payload longtext path '$[0]', {_DERIVED})) as one
    order by one.position
    returning id, status, <ms:run_at>, <ms:created_at>, <ms:expires_at>""")

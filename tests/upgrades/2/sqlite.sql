create table if not exists rowcall_migration (
  version integer primary key,
  name text not null,
  applied_at integer not null,
  oldest integer ,
  fingerprint text 
)
-- next statement
create table rowcall_job (
  id integer primary key autoincrement constraint id_is_a_small_positive_number check (id > 0),
  lease integer not null default 0 constraint lease_is_a_whole_number check (lease between 0 and 4611686018427387904 and lease = cast(lease as integer)),
  run_at integer not null default (cast(round((julianday('now') - 2440587.5) * 86400000) as integer)) constraint run_at_is_milliseconds_since_1970 check (run_at > 100000000000 and run_at = cast(run_at as integer)),
  created_at integer not null default (cast(round((julianday('now') - 2440587.5) * 86400000) as integer)) constraint created_at_is_milliseconds_since_1970 check (created_at > 100000000000 and created_at = cast(created_at as integer)),
  expires_at integer  constraint expires_at_is_milliseconds_since_1970 check (expires_at is null or (expires_at > 100000000000 and expires_at = cast(expires_at as integer))),
  claimed_at integer ,
  started_at integer ,
  finished_at integer ,
  turn integer  constraint turn_is_integer check (turn is null or (turn between -9223372036854775807 and 9223372036854775807 and turn = cast(turn as integer))),
  chain_id integer  constraint chain_id_is_integer check (chain_id is null or (chain_id between -9223372036854775807 and 9223372036854775807 and chain_id = cast(chain_id as integer))),
  timeout real  constraint timeout_is_seconds check (timeout is null or (timeout between 1e-6 and 1e10)),
  progress real ,
  priority integer not null default 0 constraint priority_is_a_whole_number check (priority between -9223372036854775807 and 9223372036854775807 and priority = cast(priority as integer)),
  attempt integer not null default 0 constraint attempt_is_a_whole_number check (attempt between 0 and 4611686018427387904 and attempt = cast(attempt as integer)),
  max_attempts integer not null default 5 constraint max_attempts_is_a_whole_number check (max_attempts between 1 and 4611686018427387904 and max_attempts = cast(max_attempts as integer)),
  lost integer not null default 0 constraint lost_is_a_whole_number check (lost between 0 and 4611686018427387904 and lost = cast(lost as integer)),
  chain_index integer  constraint chain_index_is_integer check (chain_index is null or (chain_index between -9007199254740992 and 9007199254740992 and chain_index = cast(chain_index as integer))),
  weight integer  constraint weight_is_a_whole_number check (weight is null or (weight between 1 and 4611686018427387904 and weight = cast(weight as integer))),
  order_blocks integer  constraint order_blocks_is_integer check (order_blocks is null or (order_blocks between -9007199254740992 and 9007199254740992 and order_blocks = cast(order_blocks as integer))),
  status text not null default 'scheduled' constraint status_is_known check (status = 'succeeded' or status = 'running' or status = 'pending' or status = 'scheduled' or status = 'failed' or status = 'cancelled' or status = 'blocked'),
  queue text not null default 'default' constraint queue_is_text_without_nul check (queue < x'' and length(queue) between 1 and 200 and instr(queue, char(0)) = 0),
  type text not null constraint type_is_text_without_nul check (type < x'' and length(type) between 1 and 200 and instr(type, char(0)) = 0),
  worker text ,
  held text  constraint held_is_text check (held is null or (held < x'')),
  unfit text  constraint unfit_is_text_without_nul check (unfit is null or (unfit < x'' and length(unfit) between 1 and 200 and instr(unfit, char(0)) = 0)),
  fair text  constraint fair_is_a_short_text check (fair is null or (fair < x'' and length(fair) between 1 and 2000 and instr(fair, char(0)) = 0)),
  retry text  constraint retry_is_text check (retry is null or (retry < x'')),
  key text  constraint key_is_text check (key is null or (key < x'')),
  limits text  constraint limits_is_text check (limits is null or (limits < x'')),
  ordered text  constraint ordered_is_a_short_text check (ordered is null or (ordered < x'' and length(ordered) between 1 and 2000 and instr(ordered, char(0)) = 0)),
  target text  constraint target_is_text check (target is null or (target < x'')),
  trace_context text  constraint trace_context_is_text check (trace_context is null or (trace_context < x'')),
  on_end text  constraint on_end_is_text check (on_end is null or (on_end < x'')),
  progress_message text ,
  error_code text ,
  error_detail text ,
  traceback text ,
  tags text,
  payload text not null default '{}' constraint payload_is_text check (payload < x''),
  result text 
)
-- next statement
create table rowcall_ready (
  queue text not null,
  type text not null,
  rank integer not null,
  turn integer not null,
  id integer not null,
  since integer not null,
  expires_at integer ,
  lease integer not null default 0,
  attempt integer not null default 0,
  primary key (queue, type, rank, turn, id)
) without rowid
-- next statement
create table rowcall_claim (
  job_id integer primary key,
  lease integer not null constraint lease_is_integer check (lease between -9223372036854775807 and 9223372036854775807 and lease = cast(lease as integer)),
  holder integer not null constraint holder_is_integer check (holder between -9223372036854775807 and 9223372036854775807 and holder = cast(holder as integer)),
  claimed_at integer not null,
  started_at integer ,
  lease_until integer ,
  lease_ms integer ,
  heartbeat_at integer ,
  progress real ,
  attempt integer not null constraint attempt_is_integer check (attempt between -9007199254740992 and 9007199254740992 and attempt = cast(attempt as integer)),
  cancel integer not null default 0,
  worker text not null constraint worker_is_text check (worker < x''),
  progress_message text 
)
-- next statement
create table rowcall_attempt (
  id integer primary key,
  job_id integer not null references rowcall_job (id) on delete cascade,
  attempt integer not null,
  lease integer ,
  claimed_at integer not null,
  started_at integer ,
  finished_at integer ,
  next_run_at integer ,
  status text not null,
  worker text ,
  error_code text ,
  error_detail text ,
  traceback text 
)
-- next statement
create table rowcall_event (
  id integer primary key autoincrement constraint id_is_a_small_positive_number check (id > 0),
  job_id integer not null references rowcall_job (id) on delete cascade,
  at integer not null,
  event text not null,
  actor text ,
  detail text 
)
-- next statement
create table rowcall_step (
  job_id integer not null constraint job_id_is_integer check (job_id between -9223372036854775807 and 9223372036854775807 and job_id = cast(job_id as integer)),
  position integer not null constraint position_is_integer check (position between -9007199254740992 and 9007199254740992 and position = cast(position as integer)),
  attempt integer not null constraint attempt_is_integer check (attempt between -9007199254740992 and 9007199254740992 and attempt = cast(attempt as integer)),
  failures integer not null default 0 constraint failures_is_integer check (failures between -9007199254740992 and 9007199254740992 and failures = cast(failures as integer)),
  started_at integer not null constraint started_at_is_integer check (started_at between -9007199254740992 and 9007199254740992 and started_at = cast(started_at as integer)),
  due_at integer  constraint due_at_is_integer check (due_at is null or (due_at between -9007199254740992 and 9007199254740992 and due_at = cast(due_at as integer))),
  finished_at integer  constraint finished_at_is_integer check (finished_at is null or (finished_at between -9007199254740992 and 9007199254740992 and finished_at = cast(finished_at as integer))),
  kind text not null constraint rowcall_step_kind_is_known check (kind in ('step', 'sleep', 'wait')) constraint kind_is_text check (kind < x''),
  name text not null constraint name_is_text check (name < x''),
  status text not null constraint rowcall_step_status_is_known check (status in ('waiting', 'finished', 'timed_out')) constraint status_is_text check (status < x''),
  error_code text  constraint error_code_is_text check (error_code is null or (error_code < x'')),
  error_detail text  constraint error_detail_is_text check (error_detail is null or (error_detail < x'')),
  result text  constraint result_is_text check (result is null or (result < x'')),
  primary key (job_id, position)
) without rowid
-- next statement
create table rowcall_signal (
  id integer primary key,
  job_id integer not null constraint job_id_is_integer check (job_id between -9223372036854775807 and 9223372036854775807 and job_id = cast(job_id as integer)),
  name text not null constraint name_is_text check (name < x''),
  value text  constraint value_is_text check (value is null or (value < x''))
)
-- next statement
create table rowcall_worker (
  name text primary key constraint name_is_utf_8 check (name < x'' and name not glob '*[�]*'),
  host text not null constraint host_is_text check (host < x''),
  pid integer not null constraint pid_is_integer check (pid between -9007199254740992 and 9007199254740992 and pid = cast(pid as integer)),
  queues text not null constraint queues_is_text check (queues < x''),
  concurrency integer not null constraint concurrency_is_integer check (concurrency between -9007199254740992 and 9007199254740992 and concurrency = cast(concurrency as integer)),
  version text not null constraint version_is_text check (version < x''),
  lease_ms integer not null constraint lease_ms_is_integer check (lease_ms between -9007199254740992 and 9007199254740992 and lease_ms = cast(lease_ms as integer)),
  lock_path text  constraint lock_path_is_text check (lock_path is null or (lock_path < x'')),
  started_at integer not null constraint started_at_is_integer check (started_at between -9007199254740992 and 9007199254740992 and started_at = cast(started_at as integer)),
  heartbeats integer not null default 0 constraint heartbeats_is_integer check (heartbeats between -9007199254740992 and 9007199254740992 and heartbeats = cast(heartbeats as integer)),
  heartbeat_at integer not null constraint heartbeat_at_is_integer check (heartbeat_at between -9007199254740992 and 9007199254740992 and heartbeat_at = cast(heartbeat_at as integer)),
  tasks text  constraint tasks_is_text check (tasks is null or (tasks < x''))
) without rowid
-- next statement
create table rowcall_job_tag (
  tag text not null constraint tag_is_text check (tag < x''),
  job_id integer not null references rowcall_job (id) on delete cascade constraint job_id_is_integer check (job_id between -9223372036854775807 and 9223372036854775807 and job_id = cast(job_id as integer)),
  status text not null default '' constraint status_is_text check (status < x''),
  primary key (tag, job_id)
) without rowid
-- next statement
create table rowcall_tally (
  id integer primary key,
  at integer not null constraint at_is_integer check (at between -9007199254740992 and 9007199254740992 and at = cast(at as integer)),
  jobs integer not null constraint jobs_is_integer check (jobs between -9007199254740992 and 9007199254740992 and jobs = cast(jobs as integer)),
  attempt integer not null constraint attempt_is_integer check (attempt between -9007199254740992 and 9007199254740992 and attempt = cast(attempt as integer)),
  queue text not null constraint queue_is_text check (queue < x''),
  type text not null constraint type_is_text check (type < x''),
  outcome text  constraint outcome_is_text check (outcome is null or (outcome < x'')),
  status text  constraint status_is_text check (status is null or (status < x'')),
  error_code text not null constraint error_code_is_text check (error_code < x''),
  waits text  constraint waits_is_text check (waits is null or (waits < x'')),
  runs text  constraint runs_is_text check (runs is null or (runs < x''))
)
-- next statement
create table rowcall_total (
  status text not null constraint status_is_text check (status < x''),
  queue text not null constraint queue_is_text check (queue < x''),
  type text not null constraint type_is_text check (type < x''),
  error_code text not null constraint error_code_is_text check (error_code < x''),
  attempt integer not null constraint attempt_is_integer check (attempt between -9007199254740992 and 9007199254740992 and attempt = cast(attempt as integer)),
  jobs integer not null constraint jobs_is_integer check (jobs between -9007199254740992 and 9007199254740992 and jobs = cast(jobs as integer)),
  primary key (status, queue, type, error_code, attempt)
) without rowid
-- next statement
create table rowcall_history (
  id integer primary key,
  at integer not null constraint at_is_integer check (at between -9007199254740992 and 9007199254740992 and at = cast(at as integer)),
  span_ms integer not null constraint span_ms_is_integer check (span_ms between -9007199254740992 and 9007199254740992 and span_ms = cast(span_ms as integer)),
  jobs integer not null constraint jobs_is_integer check (jobs between -9007199254740992 and 9007199254740992 and jobs = cast(jobs as integer)),
  queue text not null constraint queue_is_text check (queue < x''),
  type text not null constraint type_is_text check (type < x''),
  outcome text not null constraint outcome_is_text check (outcome < x''),
  error_code text not null default '' constraint error_code_is_text check (error_code < x''),
  waits text  constraint waits_is_text check (waits is null or (waits < x'')),
  runs text  constraint runs_is_text check (runs is null or (runs < x''))
)
-- next statement
create table rowcall_setting (
  name text primary key constraint name_is_text check (name < x''),
  value text not null constraint value_is_text check (value < x'')
) without rowid
-- next statement
create table rowcall_note (
  until integer not null constraint until_is_integer check (until between -9007199254740992 and 9007199254740992 and until = cast(until as integer)),
  name text primary key constraint name_is_text check (name < x''),
  value text not null constraint value_is_text check (value < x'')
) without rowid
-- next statement
create table rowcall_waiter (
  deleted_job integer not null default 0 constraint deleted_job_is_integer check (deleted_job between -9223372036854775807 and 9223372036854775807 and deleted_job = cast(deleted_job as integer)),
  deleted_event integer not null default 0 constraint deleted_event_is_integer check (deleted_event between -9223372036854775807 and 9223372036854775807 and deleted_event = cast(deleted_event as integer)),
  job_id integer not null constraint job_id_is_integer check (job_id between -9223372036854775807 and 9223372036854775807 and job_id = cast(job_id as integer)),
  until integer not null constraint until_is_integer check (until between -9007199254740992 and 9007199254740992 and until = cast(until as integer)),
  name text not null constraint name_is_text check (name < x''),
  primary key (name, job_id)
) without rowid
-- next statement
create table rowcall_change (
  id integer primary key autoincrement constraint id_is_a_small_positive_number check (id > 0),
  jobs text not null constraint jobs_is_text check (jobs < x'')
)
-- next statement
create table rowcall_blob_ref (
  job_id integer not null references rowcall_job (id) on delete cascade constraint job_id_is_integer check (job_id between -9223372036854775807 and 9223372036854775807 and job_id = cast(job_id as integer)),
  digest text not null constraint digest_is_text check (digest < x''),
  primary key (digest, job_id)
) without rowid
-- next statement
create table rowcall_blob_pin (
  token text not null constraint token_is_text check (token < x''),
  digest text not null constraint digest_is_text check (digest < x''),
  reference text not null constraint reference_is_text check (reference < x''),
  primary key (token, digest)
) without rowid
-- next statement
create table rowcall_edge (
  blocker_id integer not null constraint blocker_id_is_integer check (blocker_id between -9223372036854775807 and 9223372036854775807 and blocker_id = cast(blocker_id as integer)),
  job_id integer not null constraint job_id_is_integer check (job_id between -9223372036854775807 and 9223372036854775807 and job_id = cast(job_id as integer)),
  resolved_at integer  constraint resolved_at_is_integer check (resolved_at is null or (resolved_at between -9007199254740992 and 9007199254740992 and resolved_at = cast(resolved_at as integer))),
  position integer not null constraint position_is_integer check (position between -9007199254740992 and 9007199254740992 and position = cast(position as integer)),
  of_chain integer not null default 0 constraint of_chain_is_integer check (of_chain between -9007199254740992 and 9007199254740992 and of_chain = cast(of_chain as integer)),
  state text not null default 'open' constraint state_is_text check (state < x''),
  on_failure text not null default 'fail' constraint on_failure_is_text check (on_failure < x''),
  primary key (blocker_id, of_chain, job_id),
  constraint rowcall_a_blocker_comes_first check (blocker_id < job_id)
) without rowid
-- next statement
create table rowcall_slot (
  job_id integer not null constraint job_id_is_integer check (job_id between -9223372036854775807 and 9223372036854775807 and job_id = cast(job_id as integer)),
  lease integer not null constraint lease_is_integer check (lease between -9223372036854775807 and 9223372036854775807 and lease = cast(lease as integer)),
  limit_key text not null constraint limit_key_is_text check (limit_key < x''),
  worker text  constraint worker_is_text check (worker is null or (worker < x'')),
  primary key (limit_key, job_id, lease)
) without rowid
-- next statement
create table rowcall_start (
  number integer not null constraint number_is_integer check (number between -9007199254740992 and 9007199254740992 and number = cast(number as integer)),
  at integer not null constraint at_is_integer check (at between -9007199254740992 and 9007199254740992 and at = cast(at as integer)),
  until integer not null constraint until_is_integer check (until between -9007199254740992 and 9007199254740992 and until = cast(until as integer)),
  limit_key text not null constraint limit_key_is_text check (limit_key < x''),
  primary key (limit_key, number)
) without rowid
-- next statement
create table rowcall_opening (
  limit_key text primary key constraint limit_key_is_text check (limit_key < x''),
  opens_at integer not null constraint opens_at_is_integer check (opens_at between -9007199254740992 and 9007199254740992 and opens_at = cast(opens_at as integer))
) without rowid
-- next statement
create table rowcall_quota (
  name text primary key constraint name_is_text check (name < x''),
  concurrency integer  constraint concurrency_is_integer check (concurrency is null or (concurrency between -9007199254740992 and 9007199254740992 and concurrency = cast(concurrency as integer))),
  rate integer  constraint rate_is_integer check (rate is null or (rate between -9007199254740992 and 9007199254740992 and rate = cast(rate as integer))),
  per_ms integer  constraint per_ms_is_integer check (per_ms is null or (per_ms between -9007199254740992 and 9007199254740992 and per_ms = cast(per_ms as integer)))
) without rowid
-- next statement
create table rowcall_served (
  queue text not null,
  scope text not null,
  rank integer not null,
  turn integer not null,
  primary key (queue, scope, rank)
) without rowid
-- next statement
create table rowcall_pause (
  kind text not null constraint rowcall_kind_is_known check (kind = 'queue' or kind = 'task') constraint kind_is_text check (kind < x''),
  name text not null constraint name_is_text check (name < x''),
  actor text  constraint actor_is_text check (actor is null or (actor < x'')),
  at integer not null constraint at_is_integer check (at between -9007199254740992 and 9007199254740992 and at = cast(at as integer)),
  primary key (kind, name)
) without rowid
-- next statement
create table rowcall_schedule (
  name text primary key constraint name_is_utf_8 check (name < x'' and name not glob '*[�]*'),
  task text not null constraint task_is_text check (task < x''),
  payload text not null default '{}' constraint payload_is_text check (payload < x''),
  options text not null default '{}' constraint options_is_text check (options < x''),
  cron text  constraint cron_is_text check (cron is null or (cron < x'')),
  every_ms integer  constraint every_ms_is_integer check (every_ms is null or (every_ms between -9007199254740992 and 9007199254740992 and every_ms = cast(every_ms as integer))),
  zone text not null default 'UTC' constraint zone_is_text check (zone < x''),
  catch_up text not null default 'one' constraint catch_up_is_text check (catch_up < x''),
  paused integer not null default 0 constraint paused_is_integer check (paused between -9007199254740992 and 9007199254740992 and paused = cast(paused as integer)),
  declared integer not null default 0 constraint declared_is_integer check (declared between -9007199254740992 and 9007199254740992 and declared = cast(declared as integer)),
  actor text  constraint actor_is_text check (actor is null or (actor < x'')),
  next_run_at integer  constraint next_run_at_is_integer check (next_run_at is null or (next_run_at between -9007199254740992 and 9007199254740992 and next_run_at = cast(next_run_at as integer))),
  last_run_at integer  constraint last_run_at_is_integer check (last_run_at is null or (last_run_at between -9007199254740992 and 9007199254740992 and last_run_at = cast(last_run_at as integer))),
  last_job_id integer  constraint last_job_id_is_integer check (last_job_id is null or (last_job_id between -9223372036854775807 and 9223372036854775807 and last_job_id = cast(last_job_id as integer))),
  problem text  constraint problem_is_text check (problem is null or (problem < x''))
) without rowid
-- next statement
create index rowcall_ready_turned on rowcall_ready (queue, type, id) where turn <> id
-- next statement
create index rowcall_ready_expiry on rowcall_ready (expires_at) where expires_at is not null
-- next statement
create index rowcall_claim_leased on rowcall_claim (lease_until) where lease_until is not null
-- next statement
create index rowcall_job_held on rowcall_job (queue, type, id , run_at, created_at, attempt) where held is not null and status = 'pending'
-- next statement
create index rowcall_job_held_by on rowcall_job (held, priority desc, coalesce(turn, id), id) where held is not null and status = 'pending'
-- next statement
create index rowcall_job_scheduled on rowcall_job (queue, type, id , run_at, created_at, attempt) where status = 'scheduled'
-- next statement
create index rowcall_job_due on rowcall_job (run_at) where status = 'scheduled'
-- next statement
create index rowcall_job_blocked on rowcall_job (queue, type, id , attempt) where status = 'blocked'
-- next statement
create index rowcall_job_expiry on rowcall_job (expires_at) where expires_at is not null and attempt = 0 and (status = 'scheduled' or status = 'blocked' or held is not null and status = 'pending')
-- next statement
create index rowcall_job_unclaimed on rowcall_job (id) where status = 'running'
-- next statement
create index rowcall_job_finished on rowcall_job (status, queue, type, id) where finished_at is not null
-- next statement
create index rowcall_job_aged on rowcall_job (status, queue, type, finished_at) where finished_at is not null
-- next statement
create index rowcall_job_failed on rowcall_job (coalesce(error_code, ''), finished_at, id) where status = 'failed'
-- next statement
create index rowcall_job_error on rowcall_job (status, error_code, type, id) where error_code is not null
-- next statement
create index rowcall_job_key on rowcall_job (type, key, id) where key is not null
-- next statement
create index rowcall_job_ordered on rowcall_job (ordered, id) where ordered is not null and (status in ('blocked', 'scheduled', 'pending', 'running') or status = 'failed' and order_blocks = 1)
-- next statement
create index rowcall_job_fair on rowcall_job (fair, queue, priority, turn) where fair is not null and status = 'pending'
-- next statement
create index rowcall_job_turn on rowcall_job (queue, type, priority, turn) where fair is not null and status = 'pending'
-- next statement
create unique index rowcall_job_chain on rowcall_job (chain_id, chain_index) where chain_id is not null
-- next statement
create index rowcall_job_chain_head on rowcall_job (id) where chain_index = 0
-- next statement
create index rowcall_attempt_job on rowcall_attempt (job_id, id)
-- next statement
create index rowcall_event_job on rowcall_event (job_id, id)
-- next statement
create index rowcall_signal_job on rowcall_signal (job_id, id)
-- next statement
create index rowcall_job_tag_job on rowcall_job_tag (job_id)
-- next statement
create index rowcall_job_tag_status on rowcall_job_tag (tag, status, job_id)
-- next statement
create index rowcall_history_at on rowcall_history (at)
-- next statement
create index rowcall_blob_ref_job on rowcall_blob_ref (job_id)
-- next statement
create index rowcall_edge_by_job on rowcall_edge (job_id, blocker_id, of_chain)
-- next statement
create index rowcall_edge_open on rowcall_edge (job_id) where state = 'open'
-- next statement
create index rowcall_slot_by_job on rowcall_slot (job_id)
-- next statement
create index rowcall_start_until on rowcall_start (until)
-- next statement
create index rowcall_opening_at on rowcall_opening (opens_at)
-- next statement
create index rowcall_schedule_due on rowcall_schedule (next_run_at) where paused = 0 and next_run_at is not null
-- next statement
create index rowcall_job_followed on rowcall_job (id) where on_end is not null
-- next statement
insert into rowcall_setting (name, value) values ('queue_id', lower(hex(randomblob(16))))
-- next statement
insert into rowcall_migration (version, name, applied_at, oldest, fingerprint) values (1, 'the tables of the first release', cast(round((julianday('now') - 2440587.5) * 86400000) as integer), 1, '47542088f38320c5')
-- next statement
create table rowcall_audit (
  id integer primary key,
  at integer not null constraint at_is_integer check (at between -9007199254740992 and 9007199254740992 and at = cast(at as integer)),
  event text not null constraint event_is_text check (event < x''),
  subject text not null constraint subject_is_text check (subject < x''),
  actor text  constraint actor_is_text check (actor is null or (actor < x'')),
  detail text  constraint detail_is_text check (detail is null or (detail < x''))
)
-- next statement
create table rowcall_limit_hold (
  limit_key text primary key constraint limit_key_is_text check (limit_key < x''),
  held_at integer not null constraint held_at_is_integer check (held_at between -9007199254740992 and 9007199254740992 and held_at = cast(held_at as integer)),
  until integer not null constraint until_is_integer check (until between -9007199254740992 and 9007199254740992 and until = cast(until as integer)),
  job_id integer not null constraint job_id_is_integer check (job_id between -9223372036854775807 and 9223372036854775807 and job_id = cast(job_id as integer)),
  reason text  constraint reason_is_text check (reason is null or (reason < x''))
) without rowid
-- next statement
create table rowcall_breaker (
  limit_key text primary key constraint limit_key_is_text check (limit_key < x''),
  opened_at integer not null constraint opened_at_is_integer check (opened_at between -9007199254740992 and 9007199254740992 and opened_at = cast(opened_at as integer)),
  open_until integer not null constraint open_until_is_integer check (open_until between -9007199254740992 and 9007199254740992 and open_until = cast(open_until as integer)),
  failed integer not null constraint failed_is_integer check (failed between -9007199254740992 and 9007199254740992 and failed = cast(failed as integer)),
  outcomes integer not null constraint outcomes_is_integer check (outcomes between -9007199254740992 and 9007199254740992 and outcomes = cast(outcomes as integer))
) without rowid
-- next statement
create table rowcall_outcome (
  id integer primary key,
  at integer not null constraint at_is_integer check (at between -9007199254740992 and 9007199254740992 and at = cast(at as integer)),
  failed integer not null constraint failed_is_integer check (failed between -9007199254740992 and 9007199254740992 and failed = cast(failed as integer)),
  limit_key text not null constraint limit_key_is_text check (limit_key < x'')
)
-- next statement
create table rowcall_finding (
  name text primary key constraint name_is_text check (name < x''),
  since integer  constraint since_is_integer check (since is null or (since between -9007199254740992 and 9007199254740992 and since = cast(since as integer))),
  seen_at integer not null constraint seen_at_is_integer check (seen_at between -9007199254740992 and 9007199254740992 and seen_at = cast(seen_at as integer)),
  reported_at integer  constraint reported_at_is_integer check (reported_at is null or (reported_at between -9007199254740992 and 9007199254740992 and reported_at = cast(reported_at as integer))),
  is_reported integer not null default 0 constraint is_reported_is_integer check (is_reported between -9007199254740992 and 9007199254740992 and is_reported = cast(is_reported as integer)),
  cause text not null default '' constraint cause_is_text check (cause < x''),
  size integer not null default 0 constraint size_is_integer check (size between -9007199254740992 and 9007199254740992 and size = cast(size as integer)),
  body text not null constraint body_is_text check (body < x'')
) without rowid
-- next statement
create table rowcall_alert (
  id integer primary key autoincrement constraint id_is_a_small_positive_number check (id > 0),
  at integer not null constraint at_is_integer check (at between -9007199254740992 and 9007199254740992 and at = cast(at as integer)),
  due_at integer not null constraint due_at_is_integer check (due_at between -9007199254740992 and 9007199254740992 and due_at = cast(due_at as integer)),
  attempts integer not null default 0 constraint attempts_is_integer check (attempts between -9007199254740992 and 9007199254740992 and attempts = cast(attempts as integer)),
  way text not null constraint way_is_text check (way < x''),
  finding text not null constraint finding_is_text check (finding < x''),
  body text not null constraint body_is_text check (body < x'')
)
-- next statement
create table rowcall_batch (
  id integer primary key autoincrement constraint id_is_a_small_positive_number check (id > 0),
  created_at integer not null constraint created_at_is_integer check (created_at between -9007199254740992 and 9007199254740992 and created_at = cast(created_at as integer)),
  sealed_at integer  constraint sealed_at_is_integer check (sealed_at is null or (sealed_at between -9007199254740992 and 9007199254740992 and sealed_at = cast(sealed_at as integer))),
  finished_at integer  constraint finished_at_is_integer check (finished_at is null or (finished_at between -9007199254740992 and 9007199254740992 and finished_at = cast(finished_at as integer))),
  added integer not null default 0 constraint added_is_integer check (added between -9007199254740992 and 9007199254740992 and added = cast(added as integer)),
  succeeded integer not null default 0 constraint succeeded_is_integer check (succeeded between -9007199254740992 and 9007199254740992 and succeeded = cast(succeeded as integer)),
  failed integer not null default 0 constraint failed_is_integer check (failed between -9007199254740992 and 9007199254740992 and failed = cast(failed as integer)),
  cancelled integer not null default 0 constraint cancelled_is_integer check (cancelled between -9007199254740992 and 9007199254740992 and cancelled = cast(cancelled as integer)),
  finish_job integer  constraint finish_job_is_integer check (finish_job is null or (finish_job between -9223372036854775807 and 9223372036854775807 and finish_job = cast(finish_job as integer))),
  success_job integer  constraint success_job_is_integer check (success_job is null or (success_job between -9223372036854775807 and 9223372036854775807 and success_job = cast(success_job as integer))),
  name text not null constraint name_is_text_without_nul check (name < x'' and length(name) between 1 and 200 and instr(name, char(0)) = 0),
  on_finish text  constraint on_finish_is_text check (on_finish is null or (on_finish < x'')),
  on_success text  constraint on_success_is_text check (on_success is null or (on_success < x''))
)
-- next statement
create table rowcall_batch_tally (
  id integer primary key,
  batch_id integer not null constraint batch_id_is_integer check (batch_id between -9223372036854775807 and 9223372036854775807 and batch_id = cast(batch_id as integer)),
  jobs integer not null constraint jobs_is_integer check (jobs between -9007199254740992 and 9007199254740992 and jobs = cast(jobs as integer)),
  status text  constraint status_is_text check (status is null or (status < x''))
)
-- next statement
create table rowcall_stream (
  job_id integer not null constraint job_id_is_integer check (job_id between -9223372036854775807 and 9223372036854775807 and job_id = cast(job_id as integer)),
  number integer not null constraint number_is_integer check (number between -9007199254740992 and 9007199254740992 and number = cast(number as integer)),
  part integer not null constraint part_is_integer check (part between -9007199254740992 and 9007199254740992 and part = cast(part as integer)),
  bytes integer not null constraint bytes_is_integer check (bytes between -9223372036854775807 and 9223372036854775807 and bytes = cast(bytes as integer)),
  name text not null constraint name_is_text check (name < x''),
  value text not null constraint value_is_text check (value < x''),
  primary key (job_id, number)
) without rowid
-- next statement
create table rowcall_parent_check (
  id integer primary key autoincrement constraint id_is_a_small_positive_number check (id > 0),
  job_id integer not null constraint job_id_is_integer check (job_id between -9223372036854775807 and 9223372036854775807 and job_id = cast(job_id as integer)),
  child_id integer  constraint child_id_is_integer check (child_id is null or (child_id between -9223372036854775807 and 9223372036854775807 and child_id = cast(child_id as integer)))
)
-- next statement
create table rowcall_log (
  job_id integer not null constraint job_id_is_integer check (job_id between -9223372036854775807 and 9223372036854775807 and job_id = cast(job_id as integer)),
  lease integer not null constraint lease_is_integer check (lease between -9223372036854775807 and 9223372036854775807 and lease = cast(lease as integer)),
  attempt integer not null constraint attempt_is_integer check (attempt between -9007199254740992 and 9007199254740992 and attempt = cast(attempt as integer)),
  lines text not null constraint lines_is_text check (lines < x''),
  primary key (job_id, lease)
) without rowid
-- next statement
create table rowcall_step_kept as select job_id, position, attempt, failures, started_at, due_at, finished_at, kind, name, status, error_code, error_detail, result from rowcall_step
-- next statement
drop table rowcall_step
-- next statement
create table rowcall_step (
  job_id integer not null constraint job_id_is_integer check (job_id between -9223372036854775807 and 9223372036854775807 and job_id = cast(job_id as integer)),
  position integer not null constraint position_is_integer check (position between -9007199254740992 and 9007199254740992 and position = cast(position as integer)),
  attempt integer not null constraint attempt_is_integer check (attempt between -9007199254740992 and 9007199254740992 and attempt = cast(attempt as integer)),
  failures integer not null default 0 constraint failures_is_integer check (failures between -9007199254740992 and 9007199254740992 and failures = cast(failures as integer)),
  started_at integer not null constraint started_at_is_integer check (started_at between -9007199254740992 and 9007199254740992 and started_at = cast(started_at as integer)),
  due_at integer  constraint due_at_is_integer check (due_at is null or (due_at between -9007199254740992 and 9007199254740992 and due_at = cast(due_at as integer))),
  finished_at integer  constraint finished_at_is_integer check (finished_at is null or (finished_at between -9007199254740992 and 9007199254740992 and finished_at = cast(finished_at as integer))),
  kind text not null constraint rowcall_step_kind_is_known check (kind in ('step', 'sleep', 'wait', 'call', 'first', 'patch')) constraint kind_is_text check (kind < x''),
  name text not null constraint name_is_text check (name < x''),
  status text not null constraint rowcall_step_status_is_known check (status in ('waiting', 'finished', 'timed_out', 'failed', 'cancelled', 'abandoned')) constraint status_is_text check (status < x''),
  error_code text  constraint error_code_is_text check (error_code is null or (error_code < x'')),
  error_detail text  constraint error_detail_is_text check (error_detail is null or (error_detail < x'')),
  result text  constraint result_is_text check (result is null or (result < x'')),
  primary key (job_id, position)
) without rowid
-- next statement
insert into rowcall_step (job_id, position, attempt, failures, started_at, due_at, finished_at, kind, name, status, error_code, error_detail, result) select job_id, position, attempt, failures, started_at, due_at, finished_at, kind, name, status, error_code, error_detail, result from rowcall_step_kept
-- next statement
drop table rowcall_step_kept
-- next statement
alter table rowcall_job add column batch_id integer  constraint batch_id_is_integer check (batch_id is null or (batch_id between -9223372036854775807 and 9223372036854775807 and batch_id = cast(batch_id as integer)))
-- next statement
alter table rowcall_job add column deadline_at integer
-- next statement
alter table rowcall_job add column parent_id integer  constraint parent_id_is_integer check (parent_id is null or (parent_id between -9223372036854775807 and 9223372036854775807 and parent_id = cast(parent_id as integer)))
-- next statement
alter table rowcall_job add column parent_step integer  constraint parent_step_is_integer check (parent_step is null or (parent_step between -9007199254740992 and 9007199254740992 and parent_step = cast(parent_step as integer)))
-- next statement
alter table rowcall_job add column detached integer  constraint detached_is_integer check (detached is null or (detached between -9007199254740992 and 9007199254740992 and detached = cast(detached as integer)))
-- next statement
alter table rowcall_start add column units integer  constraint units_is_integer check (units is null or (units between -9007199254740992 and 9007199254740992 and units = cast(units as integer)))
-- next statement
alter table rowcall_start add column job_id integer  constraint job_id_is_integer check (job_id is null or (job_id between -9223372036854775807 and 9223372036854775807 and job_id = cast(job_id as integer)))
-- next statement
alter table rowcall_start add column lease integer  constraint lease_is_integer check (lease is null or (lease between -9223372036854775807 and 9223372036854775807 and lease = cast(lease as integer)))
-- next statement
alter table rowcall_signal add column key text  constraint key_is_text check (key is null or (key < x''))
-- next statement
alter table rowcall_signal add column received_by integer  constraint received_by_is_integer check (received_by is null or (received_by between -9007199254740992 and 9007199254740992 and received_by = cast(received_by as integer)))
-- next statement
alter table rowcall_quota add column set_concurrency integer  constraint set_concurrency_is_integer check (set_concurrency is null or (set_concurrency between -9007199254740992 and 9007199254740992 and set_concurrency = cast(set_concurrency as integer)))
-- next statement
alter table rowcall_quota add column set_rate integer  constraint set_rate_is_integer check (set_rate is null or (set_rate between -9007199254740992 and 9007199254740992 and set_rate = cast(set_rate as integer)))
-- next statement
alter table rowcall_quota add column set_per_ms integer  constraint set_per_ms_is_integer check (set_per_ms is null or (set_per_ms between -9007199254740992 and 9007199254740992 and set_per_ms = cast(set_per_ms as integer)))
-- next statement
alter table rowcall_quota add column changed_at integer  constraint changed_at_is_integer check (changed_at is null or (changed_at between -9007199254740992 and 9007199254740992 and changed_at = cast(changed_at as integer)))
-- next statement
alter table rowcall_quota add column changed_by text  constraint changed_by_is_text check (changed_by is null or (changed_by < x''))
-- next statement
alter table rowcall_step add column question text  constraint question_is_text check (question is null or (question < x''))
-- next statement
alter table rowcall_step add column expects text  constraint expects_is_text check (expects is null or (expects < x''))
-- next statement
alter table rowcall_step add column child_id integer  constraint child_id_is_integer check (child_id is null or (child_id between -9223372036854775807 and 9223372036854775807 and child_id = cast(child_id as integer)))
-- next statement
alter table rowcall_step add column first_at integer  constraint first_at_is_integer check (first_at is null or (first_at between -9007199254740992 and 9007199254740992 and first_at = cast(first_at as integer)))
-- next statement
drop index rowcall_job_scheduled
-- next statement
drop index rowcall_job_blocked
-- next statement
drop index rowcall_job_unclaimed
-- next statement
create index rowcall_job_waiting on rowcall_job (status, queue, type, id , run_at, created_at, attempt) where status = 'scheduled' or status = 'blocked' or status = 'running'
-- next statement
create index rowcall_job_batch on rowcall_job (batch_id, status, id) where batch_id is not null
-- next statement
create index rowcall_job_deadline on rowcall_job (deadline_at) where deadline_at is not null and (status = 'scheduled' or status = 'pending')
-- next statement
create index rowcall_outcome_by_key on rowcall_outcome (limit_key, id , failed)
-- next statement
create unique index rowcall_signal_key on rowcall_signal (job_id, name, key) where key is not null
-- next statement
create index rowcall_job_parent on rowcall_job (parent_id, status, id) where parent_id is not null
-- next statement
create index rowcall_batch_over on rowcall_batch (finished_at) where finished_at is not null
-- next statement
create index rowcall_batch_tallied on rowcall_batch_tally (batch_id, status , jobs)
-- next statement
create index rowcall_step_asks on rowcall_step (started_at, job_id, position) where question is not null and kind = 'wait' and status = 'waiting'
-- next statement
create index rowcall_step_awaits on rowcall_step (started_at, job_id, position) where question is null and kind = 'wait' and status = 'waiting'
-- next statement
drop index rowcall_job_followed
-- next statement
create index rowcall_job_followed on rowcall_job (id) where on_end is not null or batch_id is not null or parent_id is not null
-- next statement
insert into rowcall_migration (version, name, applied_at, oldest, fingerprint) values (2, 'limits that change, batches, child jobs and streams', cast(round((julianday('now') - 2440587.5) * 86400000) as integer), 2, '54b1fca804c7fe89')
-- next statement
create trigger rowcall_job_tags_changed before update of tags on rowcall_job when new.tags is not null begin
  
  select raise(abort, 'CHECK constraint failed: tags_are_a_json_array')
  where new.tags is not null
    and not (typeof(new.tags) = 'text' and json_valid(new.tags) and json_type(new.tags) = 'array');

end
-- next statement
create trigger rowcall_job_inserted after insert on rowcall_job when new.fair is null and new.status = 'pending' and new.held is null
  and not exists (select 1 from rowcall_setting where name = 'bulk_after' and cast(value as integer) < new.id) begin
  insert or replace into rowcall_ready (queue, type, rank, turn, id, since, expires_at, lease, attempt) values (new.queue, case when new.unfit is null and instr(new.type, char(31)) = 0 then new.type else new.type || char(31) || coalesce(new.unfit, '') end, ~new.priority, coalesce(new.turn, new.id), new.id, max(new.run_at, new.created_at), case when new.attempt = 0 then new.expires_at end, new.lease, new.attempt);
end
-- next statement
create trigger rowcall_job_fair_inserted after insert on rowcall_job when new.fair is not null and new.status = 'pending' and new.held is null
  and not exists (select 1 from rowcall_setting where name = 'bulk_after' and cast(value as integer) < new.id) begin
  update rowcall_job set turn = (
    select case when value_turn is null or value_turn < base then base
                when coalesce(new.weight, 1) > (select count(*) from rowcall_job as other indexed by rowcall_job_fair where other.status = 'pending' and other.fair = new.fair
        and other.queue = new.queue and other.priority = new.priority and other.id <> new.id
        and not exists (select 1 from rowcall_claim as claim where claim.job_id = other.id ) and other.turn = value_turn)
                then value_turn else value_turn + 1 end
    from (
      select (select other.turn from rowcall_job as other indexed by rowcall_job_fair where other.status = 'pending' and other.fair = new.fair
        and other.queue = new.queue and other.priority = new.priority and other.id <> new.id
        and not exists (select 1 from rowcall_claim as claim where claim.job_id = other.id ) and other.turn < 1152921504606846976 order by other.turn desc limit 1) as value_turn,
        case when new.fair like '[null,%' then last + 1 else coalesce(
          (select other.turn from rowcall_job as other indexed by rowcall_job_turn
           where other.status = 'pending' and other.fair is not null and other.queue = new.queue
             and other.type = new.type and other.priority = new.priority and other.id <> new.id
             and not exists (select 1 from rowcall_claim as claim where claim.job_id = other.id )
             and other.turn > last and other.turn < 1152921504606846976 order by other.turn limit 1),
          max(last + 1, new.id)) end as base
      from (
        select coalesce(
          (select turn from rowcall_served where queue = new.queue and rank = ~new.priority
             and scope = case when new.fair like '[null,%' then '' else new.type end), 0) as last limit 1) as clock
      limit 1) as found) where id = new.id;
  insert or replace into rowcall_ready (queue, type, rank, turn, id, since, expires_at, lease, attempt) select job.queue, case when job.unfit is null and instr(job.type, char(31)) = 0 then job.type else job.type || char(31) || coalesce(job.unfit, '') end, ~job.priority, coalesce(job.turn, job.id), job.id, max(job.run_at, job.created_at), case when job.attempt = 0 then job.expires_at end, job.lease, job.attempt from rowcall_job as job where id = new.id;
end
-- next statement
create trigger rowcall_job_special_inserted after insert on rowcall_job
when new.tags is not null or (new.status = 'succeeded' or new.status = 'failed' or new.status = 'cancelled') or new.id > 4611686018427387904 begin
  
  select raise(abort, 'CHECK constraint failed: tags_are_a_json_array')
  where new.tags is not null
    and not (typeof(new.tags) = 'text' and json_valid(new.tags) and json_type(new.tags) = 'array');

  insert or ignore into rowcall_job_tag (tag, job_id, status) select value, new.id, new.status from json_each(new.tags);
  select raise(abort, 'CHECK constraint failed: id_is_a_small_positive_number') where new.id > 4611686018427387904 and new.id - coalesce((select seq from sqlite_sequence where name = 'rowcall_job' collate nocase), 0) > 1000000;
  update rowcall_job set finished_at = created_at
  where id = new.id and finished_at is null and (new.status = 'succeeded' or new.status = 'failed' or new.status = 'cancelled');
  
  insert into rowcall_total (status, queue, type, error_code, attempt, jobs)
  select new.status, new.queue, new.type, coalesce(cast(new.error_code as text), ''),
         min(new.attempt, 100), 1
  where (new.status = 'succeeded' or new.status = 'failed' or new.status = 'cancelled')
  on conflict (status, queue, type, error_code, attempt) do update set jobs = max(-9007199254740992, min(9007199254740992, jobs + excluded.jobs));

end
-- next statement
create trigger rowcall_event_inserted after insert on rowcall_event when new.id > 4611686018427387904 begin
  select raise(abort, 'CHECK constraint failed: id_is_a_small_positive_number') where new.id > 4611686018427387904 and new.id - coalesce((select seq from sqlite_sequence where name = 'rowcall_event' collate nocase), 0) > 1000000;
end
-- next statement
create trigger rowcall_change_inserted after insert on rowcall_change when new.id > 4611686018427387904 begin
  select raise(abort, 'CHECK constraint failed: id_is_a_small_positive_number') where new.id > 4611686018427387904 and new.id - coalesce((select seq from sqlite_sequence where name = 'rowcall_change' collate nocase), 0) > 1000000;
end
-- next statement
create trigger rowcall_job_id before update of id on rowcall_job when new.id > 4611686018427387904 begin
  select raise(abort, 'CHECK constraint failed: id_is_a_small_positive_number');
end
-- next statement
create trigger rowcall_event_id before update of id on rowcall_event when new.id > 4611686018427387904 begin
  select raise(abort, 'CHECK constraint failed: id_is_a_small_positive_number');
end
-- next statement
create trigger rowcall_change_id before update of id on rowcall_change when new.id > 4611686018427387904 begin
  select raise(abort, 'CHECK constraint failed: id_is_a_small_positive_number');
end
-- next statement
create trigger rowcall_job_deleted after delete on rowcall_job when (old.status = 'succeeded' or old.status = 'failed' or old.status = 'cancelled') begin
  
  insert into rowcall_total (status, queue, type, error_code, attempt, jobs)
  select old.status, old.queue, old.type, coalesce(cast(old.error_code as text), ''),
         min(old.attempt, 100), -1
  where (old.status = 'succeeded' or old.status = 'failed' or old.status = 'cancelled')
  on conflict (status, queue, type, error_code, attempt) do update set jobs = max(-9007199254740992, min(9007199254740992, jobs + excluded.jobs));

end
-- next statement
create trigger rowcall_job_left_batch after delete on rowcall_job when old.batch_id is not null and not (old.status = 'succeeded' or old.status = 'failed' or old.status = 'cancelled')
begin
  insert into rowcall_batch_tally (batch_id, jobs) values (old.batch_id, -1);
end
-- next statement
create trigger rowcall_job_belongings after delete on rowcall_job begin
  delete from rowcall_attempt where job_id = old.id;
  delete from rowcall_event where job_id = old.id;
  delete from rowcall_job_tag where job_id = old.id;
  delete from rowcall_edge where job_id = old.id;
  delete from rowcall_slot where job_id = old.id and worker is null;
  delete from rowcall_step where job_id = old.id;
  delete from rowcall_signal where job_id = old.id;
  delete from rowcall_stream where job_id = old.id;
  delete from rowcall_log where job_id = old.id;
  delete from rowcall_claim where job_id = old.id;
end
-- next statement
create trigger rowcall_job_not_ready after delete on rowcall_job when old.status = 'pending' and old.held is null begin
  delete from rowcall_ready where queue = old.queue and type = case when old.unfit is null and instr(old.type, char(31)) = 0 then old.type else old.type || char(31) || coalesce(old.unfit, '') end and rank = ~old.priority and turn = coalesce(old.turn, old.id) and id = old.id;
end
-- next statement
create trigger rowcall_job_ready_changed after update of id, status, held, unfit, queue, type, priority, turn, fair, run_at, created_at, expires_at, attempt, lease on rowcall_job
when new.lease <> old.lease + 2 and (old.status = 'pending' and old.held is null or new.status = 'pending' and new.held is null) begin
  -- the next trigger may have changed the turn: SQLite does not say which comes first
  update or replace rowcall_ready set (queue, type, rank, turn, id, since, expires_at, lease, attempt) = (
    select job.queue, case when job.unfit is null and instr(job.type, char(31)) = 0 then job.type else job.type || char(31) || coalesce(job.unfit, '') end, ~job.priority, coalesce(job.turn, job.id), job.id, max(job.run_at, job.created_at), case when job.attempt = 0 then job.expires_at end, job.lease, job.attempt from rowcall_job as job where job.id = new.id)
  where queue = old.queue and type = case when old.unfit is null and instr(old.type, char(31)) = 0 then old.type else old.type || char(31) || coalesce(old.unfit, '') end and rank = ~old.priority and turn = coalesce(old.turn, old.id) and id = old.id and old.status = 'pending' and old.held is null and new.status = 'pending' and new.held is null;
  delete from rowcall_ready where queue = old.queue and type = case when old.unfit is null and instr(old.type, char(31)) = 0 then old.type else old.type || char(31) || coalesce(old.unfit, '') end and rank = ~old.priority and turn = coalesce(old.turn, old.id) and id = old.id and not (new.status = 'pending' and new.held is null);
  insert or replace into rowcall_ready (queue, type, rank, turn, id, since, expires_at, lease, attempt)
  select job.queue, case when job.unfit is null and instr(job.type, char(31)) = 0 then job.type else job.type || char(31) || coalesce(job.unfit, '') end, ~job.priority, coalesce(job.turn, job.id), job.id, max(job.run_at, job.created_at), case when job.attempt = 0 then job.expires_at end, job.lease, job.attempt from rowcall_job as job
  where job.id = new.id and new.status = 'pending' and new.held is null and not (old.status = 'pending' and old.held is null)
    and not exists (select 1 from rowcall_claim where job_id = new.id);
end
-- next statement
create trigger rowcall_job_turn_changed after update of id, status, held, unfit, queue, type, priority, turn, fair, run_at, created_at, expires_at, attempt, lease on rowcall_job when new.lease <> old.lease + 2 and new.fair is not null and new.status = 'pending' and new.held is null
    and (old.status <> 'pending' and old.status <> 'running' or new.priority <> old.priority or new.queue <> old.queue
         or new.type <> old.type or old.fair is null or new.fair <> old.fair) begin
  update rowcall_job set turn = (
    select case when value_turn is null or value_turn < base then base
                when coalesce(new.weight, 1) > (select count(*) from rowcall_job as other indexed by rowcall_job_fair where other.status = 'pending' and other.fair = new.fair
        and other.queue = new.queue and other.priority = new.priority and other.id <> new.id
        and not exists (select 1 from rowcall_claim as claim where claim.job_id = other.id ) and other.turn = value_turn)
                then value_turn else value_turn + 1 end
    from (
      select (select other.turn from rowcall_job as other indexed by rowcall_job_fair where other.status = 'pending' and other.fair = new.fair
        and other.queue = new.queue and other.priority = new.priority and other.id <> new.id
        and not exists (select 1 from rowcall_claim as claim where claim.job_id = other.id ) and other.turn < 1152921504606846976 order by other.turn desc limit 1) as value_turn,
        case when new.fair like '[null,%' then last + 1 else coalesce(
          (select other.turn from rowcall_job as other indexed by rowcall_job_turn
           where other.status = 'pending' and other.fair is not null and other.queue = new.queue
             and other.type = new.type and other.priority = new.priority and other.id <> new.id
             and not exists (select 1 from rowcall_claim as claim where claim.job_id = other.id )
             and other.turn > last and other.turn < 1152921504606846976 order by other.turn limit 1),
          max(last + 1, new.id)) end as base
      from (
        select coalesce(
          (select turn from rowcall_served where queue = new.queue and rank = ~new.priority
             and scope = case when new.fair like '[null,%' then '' else new.type end), 0) as last limit 1) as clock
      limit 1) as found) where id = new.id;
end
-- next statement
create trigger rowcall_job_unread before delete on rowcall_job when not (old.status = 'succeeded' or old.status = 'failed' or old.status = 'cancelled') begin
  update rowcall_waiter set deleted_job = max(deleted_job, old.id),
    deleted_event = max(deleted_event, coalesce((select max(id) from rowcall_event where job_id = old.id), 0))
  where job_id = 0;
end
-- next statement
create view rowcall_jobs as
select job.id, case when claim.job_id is null then job.lease else claim.lease end as lease, job.run_at, job.created_at, job.expires_at, case when claim.job_id is null then job.claimed_at else max(claim.claimed_at, job.created_at) end as claimed_at, case when claim.job_id is null then job.started_at else case when claim.started_at is not null then max(claim.started_at, job.created_at) end end as started_at, case when claim.job_id is null then job.finished_at else null end as finished_at, job.turn, job.chain_id, job.timeout, case when claim.job_id is null then job.progress else case when claim.progress is not null then claim.progress when exists (select 1 from rowcall_step where job_id = job.id ) then job.progress end end as progress, job.priority, case when claim.job_id is null then job.attempt else claim.attempt end as attempt, job.max_attempts, job.lost, job.chain_index, job.weight, job.order_blocks, case when claim.job_id is null then job.status else 'running' end as status, job.queue, job.type, case when claim.job_id is null then job.worker else claim.worker end as worker, job.held, job.unfit, job.fair, job.retry, job.key, job.limits, job.ordered, job.target, job.trace_context, job.on_end, case when claim.job_id is null then job.progress_message else case when claim.progress is not null then claim.progress_message when exists (select 1 from rowcall_step where job_id = job.id ) then job.progress_message end end as progress_message, case when claim.job_id is null then job.error_code else null end as error_code, case when claim.job_id is null then job.error_detail else null end as error_detail, case when claim.job_id is null then job.traceback else null end as traceback, job.tags, job.payload, case when claim.job_id is null then job.result else null end as result, claim.holder, claim.heartbeat_at, claim.lease_until, claim.lease_ms, job.batch_id, job.deadline_at, job.parent_id, job.parent_step, job.detached
from rowcall_job as job left join rowcall_claim as claim on claim.job_id = job.id
-- next statement
create view rowcall_attempts as
select id as seq, job_id, attempt, status, claimed_at, started_at, finished_at, worker,
       error_code, error_detail, traceback, next_run_at
from rowcall_attempt
union all
select 9000000000000000000, id, attempt,
       case when status = 'failed' and error_code = 'WORKER:LOST' then 'lost' else status end,
       claimed_at, started_at, finished_at, worker, error_code, error_detail, traceback, null
from rowcall_jobs where claimed_at is not null
-- next statement
create view rowcall_timeline as
select id as job_id, created_at as at, cast(0 as bigint) as seq, 0 as rank, 'ENQUEUED' as event, null as actor,
       null as detail, cast(null as text) as secret
from rowcall_job
union all
select job_id, claimed_at, seq, 1, 'CLAIMED', worker, 'attempt ' || attempt, null from rowcall_attempts
union all
select job_id, started_at, seq, 2, 'STARTED', worker, 'attempt ' || attempt, null
from rowcall_attempts where started_at is not null
union all
select job_id, heartbeat_at, 9000000000000000000, 3, 'HEARTBEAT', worker, null, null
from rowcall_claim where heartbeat_at is not null
union all
select id, coalesce(heartbeat_at, finished_at,
                    (select max(past.finished_at) from rowcall_attempt as past where past.job_id = job.id)),
       9000000000000000000, 3, 'PROGRESS', worker,
       cast(round(progress * 100) as integer) || ' %' || coalesce(': ' || progress_message, ''), progress_message
from rowcall_jobs as job where progress is not null and (
  heartbeat_at is not null or finished_at is not null
  or exists (select 1 from rowcall_attempt where job_id = job.id ))
union all
select job_id, finished_at, seq, 4,
       case status when 'succeeded' then 'SUCCEEDED' when 'lost' then 'RECOVERED' when 'released' then 'RELEASED'
                   when 'snoozed' then 'SNOOZED' when 'cancelled' then 'CANCELLED' else 'FAILED' end,
       case when status = 'lost' then null else worker end,
       case when status = 'snoozed' then 'until ' || replace(strftime('%Y-%m-%d %H:%M:%f', next_run_at / 1000.0, 'unixepoch') || ' UTC', '9999-12-31 00:00:00.000 UTC', 'it is signalled')
            else error_code || coalesce(': ' || error_detail, '') end,
       case when status <> 'snoozed' then error_detail end
from rowcall_attempts where finished_at is not null and status <> 'running'
union all
select job_id, finished_at, seq, 5, 'RETRY_SCHEDULED', null, 'for ' || strftime('%Y-%m-%d %H:%M:%f', next_run_at / 1000.0, 'unixepoch') || ' UTC', null
from rowcall_attempts where status = 'failed' and next_run_at is not null
union all
select id, finished_at, 9000000000000000000, 5, 'FAILED', null, error_code, null
from rowcall_job where +status = 'failed' and coalesce(error_code, '') = 'WORKER:LOST' and claimed_at is not null
union all
select job_id, coalesce(finished_at, started_at), 9000000000000000000, 3,
       case when status = 'timed_out' then 'WAIT_TIMED_OUT'
            when status = 'abandoned' then 'WAIT_ABANDONED' when kind = 'sleep' then 'SLEEPING'
            when kind = 'call' then case status when 'waiting' then 'CALLED' when 'finished' then 'CALL_SUCCEEDED'
                                                when 'failed' then 'CALL_FAILED' else 'CALL_CANCELLED' end
            when kind = 'wait' then case when status = 'finished' then 'SIGNAL_RECEIVED' else 'WAITING' end
            when status = 'finished' then 'STEP_FINISHED' else 'STEP_FAILED' end,
       null, case when kind = 'sleep' then 'until ' || strftime('%Y-%m-%d %H:%M:%f', due_at / 1000.0, 'unixepoch') || ' UTC'
                  when kind = 'call' then name || ' (job ' || child_id || coalesce('): ' || error_code, ')')
                  else name || coalesce(': ' || error_code || coalesce(': ' || error_detail, ''), '') end,
       case when kind not in ('sleep', 'call') then error_detail end
from rowcall_step where kind not in ('first', 'patch')
union all
select id, finished_at, 9000000000000000000, 5, 'EXPIRED', null, error_detail, null
from rowcall_job where +status = 'cancelled' and coalesce(error_code, '') = 'EXPIRED:NOT_STARTED'
union all
select job_id, at, 8000000000000000000 + min(id, 1000000000000000000), 6, event, actor, detail, null from rowcall_event
union all
select id, created_at, 0, 1, 'BLOCKED', null,
       'blockers: ' || (select count(*) from rowcall_edge as edge where edge.job_id = job.id), null
from rowcall_job as job where exists (select 1 from rowcall_edge as edge where edge.job_id = job.id )
union all
select id, (select max(resolved_at) from rowcall_edge as edge where edge.job_id = job.id), 0, 2, 'UNBLOCKED', null, null, null
from rowcall_job as job
where status <> 'blocked' and exists (select 1 from rowcall_edge as edge where edge.job_id = job.id )
  and not exists (select 1 from rowcall_edge as edge where edge.job_id = job.id
                  and (edge.state in ('open', 'failed') or edge.resolved_at > job.finished_at) )
union all
select id, finished_at, 9000000000000000000, 5, case status when 'failed' then 'FAILED' else 'CANCELLED' end, null,
       error_code || coalesce(': ' || error_detail, ''), error_detail
from rowcall_job
where case when finished_at is not null and claimed_at is null then 1 else 0 end = 1
  and coalesce(error_code, '') in ('BLOCKER:FAILED', 'BLOCKER:CANCELLED', 'CHAIN:COMPLETED', 'DEADLINE:PASSED', 'INVALID_INPUT:SCHEMA_MISMATCH', 'STEPS:CHANGED', 'INVALID_INPUT:UNKNOWN_TASK')
union all
select id, max(run_at, created_at), 9000000000000000000, 7, 'HELD', null,
       case when held like 'order:%' then 'behind an earlier job of ' else 'by limit ' end || substr(held, 7), null
from rowcall_job where +status = 'pending' and (coalesce(held, '') like 'limit:%' or coalesce(held, '') like 'order:%')
union all
select id, (select max(finished_at) from rowcall_attempt as attempt where attempt.job_id = job.id), 9000000000000000000, 7,
       'HELD', null, case error_code when 'INVALID_INPUT:SCHEMA_MISMATCH' then 'until a worker comes that the arguments fit'
                     else 'until a worker comes that the recorded steps fit' end, null
from rowcall_jobs as job where status = 'pending' and unfit is not null and error_code in ('INVALID_INPUT:SCHEMA_MISMATCH', 'STEPS:CHANGED')

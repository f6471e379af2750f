"""Schema versions 2 and later, in order (see ``migrations``)."""

from chronos.store.sql.migrations.initial import NAMES_KEPT_SQLITE

# --- version 2

OUTPUT = """
create table output (
    execution {id} not null,
    task {text} not null,
    number {int} not null,
    part {int} not null,
    text {text} not null,
    primary key (execution, task, number, part)
) {attempts};
"""

# A job names the jobs that it follows, so that either job may be created first. A gate records whether its job has
# followers.
FOLLOWERS = """
create table job_after (
    namespace {text} not null,
    upstream {text} not null,
    follower {id} not null,
    outcome {text} not null,
    primary key (namespace, upstream, follower, outcome)
) {table};
create index job_after_follower on job_after (follower);
alter table gate add column followed {int} not null default 0;
"""

# For ``Store.ended_since``. The index grows only at its end, so it costs settlements little.
ENDED = """
create index history_ended on history (finished_us, id);
"""

VERSION_2 = OUTPUT + FOLLOWERS + ENDED
VERSION_2_SQLITE = """
update active set signal = json_array(signal) where signal is not null;
insert or ignore into job_after select j.namespace, a.value->>'job', j.id, coalesce(a.value->>'on', 'success')
from job as j, json_each(j.spec, '$.after') as a;
update gate set followed = 1
where job in (select j.id from job as j join job_after as a on a.namespace = j.namespace and a.upstream = j.name);
"""
VERSION_2_POSTGRES = """
create table output_default partition of output default;
update active set signal = json_build_array(signal)::text where signal is not null;
insert into job_after select j.namespace, a.value->>'job', j.id, coalesce(a.value->>'on', 'success')
from job as j cross join lateral json_array_elements(j.spec::json->'after') as a (value) on conflict do nothing;
update gate set followed = 1
where job in (select j.id from job as j join job_after as a on a.namespace = j.namespace and a.upstream = j.name);
"""

# --- version 3

# The time since which an execution is ready. Null means since its admission. Only claims from ``late_lanes`` read it.
READY_SINCE = """
alter table active add column ready_since_us {int};
"""

# Deleted jobs that may still have records, and the time of the next check whether the records have expired.
REMAINS = """
create table remains (
    job {id} not null primary key,
    look_us {int} not null
) {table};
create index remains_look on remains (look_us, job);
insert into remains (job, look_us) select job, 0 from tombstone;
"""

VERSION_3 = READY_SINCE + REMAINS

# Heartbeats select the executions of one node by this index. A SQLite store has only one or two nodes. There the index
# would cost claims and settlements more than it saves.
VERSION_3_POSTGRES = """
create index active_owner on active (owner, id) where owner is not null;
"""

# --- version 4

# Names of deleted jobs. They are kept while any record of the job exists.
REMAINS_NAMED = """
alter table remains add column namespace {text};
alter table remains add column name {text};
update remains set namespace = (select t.namespace from tombstone as t where t.job = remains.job),
    name = (select t.name from tombstone as t where t.job = remains.job);
"""

TOKENS = """
create table token (
    name {text} not null primary key,
    hash {text} not null unique,
    role {text} not null,
    namespaces {text},
    created_us {int} not null,
    expires_us {int},
    author {text} not null
) {table};
"""

# The reason of a cancel request. It is recorded when the execution ends.
CANCEL_MESSAGE = """
alter table active add column cancel_message {text};
"""

VERSION_4 = REMAINS_NAMED + TOKENS + CANCEL_MESSAGE

# The store reads the tags of a job from its spec. An index by id, which is a hash, costs each new job a page of the
# WAL.
VERSION_4_SQLITE = """
drop index job_tag_job;
"""

# --- version 5

# The store finds a job through its gate, which has the number of the job's row. An index by id, which is a hash, would
# cost each new job one more page of the WAL.
NUMBERED_SQLITE = """
create table numbered_job (
    number integer primary key,
    id blob not null,
    namespace text not null,
    name text not null,
    incarnation integer not null,
    version integer not null,
    spec text not null,
    owner text,
    author text not null,
    created_us integer not null,
    saved_us integer not null,
    updated_us integer not null,
    paused_us integer,
    note text not null default ''
) strict;
insert into numbered_job select rowid, * from job order by rowid;
alter table gate add column number integer;
update gate set number = (select j.rowid from job as j where j.id = gate.job);
drop table job;
alter table numbered_job rename to job;
create unique index job_name on job (namespace, name);
"""

# Due gates are spread over the whole table, so this index has every column that the read of due gates needs.
DUE_SQLITE = """
drop index gate_due;
create index gate_due on gate (next_us, job, version, lane, keyed, overlap) where state = 0 and next_us is not null;
"""
VERSION_5_SQLITE = NUMBERED_SQLITE + NAMES_KEPT_SQLITE + DUE_SQLITE

# --- version 6

# Gates are stored in the order of creation. Jobs created together are often due together, so a batch of admissions or
# of new jobs touches few pages. Before, gates were ordered by id, which is a hash, so each row was on a different page.
VERSION_6_SQLITE = """
create table ordered_gate (
    number integer primary key,
    job blob not null unique,
    next_us integer,
    version integer not null,
    state integer not null,
    overlap integer not null,
    lim integer not null,
    queue_max integer not null,
    priority integer not null,
    lane integer not null,
    keyed integer not null,
    active integer not null default 0,
    queued integer not null default 0,
    seq integer not null default 0,
    done_us integer not null default -4611686018427387904,
    keep_count integer not null,
    keep_age_us integer not null,
    trimmed integer not null default 0,
    followed integer not null default 0
) strict;
insert into ordered_gate select number, job, next_us, version, state, overlap, lim, queue_max, priority, lane, keyed,
    active, queued, seq, done_us, keep_count, keep_age_us, trimmed, followed from gate order by number;
drop table gate;
alter table ordered_gate rename to gate;
create index gate_due on gate (next_us, number, job, version, lane, keyed, overlap)
    where state = 0 and next_us is not null;
create index gate_long on gate (job) where seq - trimmed >= 64;
"""

# --- version 7

# History is indexed by the number of the job (see ``job_number_sql``). Only settlements insert the number. For all
# other rows, and for the rows of earlier releases, a trigger sets it. The migration gives deleted jobs the highest
# numbers.
VERSION_7 = """
create table gone (
    job {id} not null primary key,
    number {int} not null
) {table};
alter table history add column number {int};
"""
NUMBERS_SQLITE = """
create index gone_number on gone (number);
insert into gone select job, (select coalesce(max(number), 0) from job) + row_number() over (order by job)
    from (select job from history union select job from active union select job from remains)
    where job not in (select job from gate);
"""
NUMBERS_POSTGRES = """
alter table gate add column number bigint generated by default as identity;
insert into gone select job, nextval(pg_get_serial_sequence('gate', 'number'))
    from (select job from history union select job from active union select job from remains) as known
    where job not in (select job from gate);
"""
HISTORY_NUMBERS = """
update history set number = coalesce((select g.number from gate as g where g.job = history.job),
    (select o.number from gone as o where o.job = history.job));
drop index history_job;
create index history_job on history (number, id);
"""
NUMBER_TRIGGERS_SQLITE = """
create trigger history_numbered after insert on history when new.number is null begin
    update history set number = coalesce((select g.number from gate as g where g.job = new.job),
        (select o.number from gone as o where o.job = new.job)) where id = new.id;
end;
create trigger job_gone after delete on gate begin
    insert or replace into gone (job, number) values (old.job, old.number);
end;
create trigger job_forgotten after delete on remains begin
    delete from gone where job = old.job;
end;
"""
NUMBER_TRIGGERS_POSTGRES = """
create function number_history() returns trigger language plpgsql set search_path from current as $$ begin
    new.number := coalesce((select g.number from gate as g where g.job = new.job),
        (select o.number from gone as o where o.job = new.job));
    return new;
end $$;
create function keep_number() returns trigger language plpgsql set search_path from current as $$ begin
    insert into gone (job, number) values (old.job, old.number)
        on conflict (job) do update set number = excluded.number;
    return null;
end $$;
create function forget_number() returns trigger language plpgsql set search_path from current as $$ begin
    delete from gone where job = old.job;
    return null;
end $$;
create trigger history_numbered before insert on history
    for each row when (new.number is null) execute function number_history();
create trigger job_gone after delete on gate for each row execute function keep_number();
create trigger job_forgotten after delete on remains for each row execute function forget_number();
"""

# The store searches names but does not rank them. So the index does not store their lengths, which cost each new job a
# row.
SHORTER_NAMES_SQLITE = """
drop table job_fts;
create virtual table job_fts using fts5
    (name, content = 'job', tokenize = 'trigram', detail = 'none', columnsize = 0);
insert into job_fts (job_fts) values ('rebuild');
"""

VERSION_7_SQLITE = NUMBERS_SQLITE + HISTORY_NUMBERS + NUMBER_TRIGGERS_SQLITE + SHORTER_NAMES_SQLITE
VERSION_7_POSTGRES = NUMBERS_POSTGRES + HISTORY_NUMBERS + NUMBER_TRIGGERS_POSTGRES

# --- version 8

# Jobs whose state is not active (0), for lists by state. Most jobs are active, so a search through all jobs would be
# slow. Triggers maintain the table, so that the writes of earlier releases update it too.
IDLE = """
create table idle (
    number {int} not null primary key,
    job {id} not null,
    state {int} not null,
    namespace {text} not null,
    name {text} not null
) {job};
create index idle_named on idle (state, namespace, name);
"""
IDLE_SQLITE = """
create trigger job_made_idle after insert on gate when new.state <> 0 begin
    insert into idle select new.number, new.job, new.state, j.namespace, j.name from job as j
        where j.number = new.number;
end;
create trigger job_turned after update of state on gate when new.state <> old.state begin
    delete from idle where number = old.number;
    insert into idle select new.number, new.job, new.state, j.namespace, j.name from job as j
        where new.state <> 0 and j.number = new.number;
end;
create trigger idle_job_gone after delete on gate when old.state <> 0 begin
    delete from idle where number = old.number;
end;
insert into idle select g.number, g.job, g.state, j.namespace, j.name from gate as g join job as j
    on j.number = g.number where g.state <> 0;
"""
IDLE_POSTGRES = """
create function list_idle() returns trigger language plpgsql set search_path from current as $$ begin
    if tg_op <> 'INSERT' then
        delete from idle where number = old.number;
    end if;
    if tg_op <> 'DELETE' then
        insert into idle (number, job, state, namespace, name)
            select new.number, new.job, new.state, j.namespace, j.name from job as j
            where new.state <> 0 and j.id = new.job;
    end if;
    return null;
end $$;
create trigger job_made_idle after insert on gate
    for each row when (new.state <> 0) execute function list_idle();
create trigger job_turned after update of state on gate
    for each row when (new.state <> old.state) execute function list_idle();
create trigger idle_job_gone after delete on gate
    for each row when (old.state <> 0) execute function list_idle();
insert into idle (number, job, state, namespace, name) select g.number, g.job, g.state, j.namespace, j.name
    from gate as g join job as j on j.id = g.job where g.state <> 0;
"""

# Each index has the filtered columns first, then the list order. ``key || ''`` keeps the planner from using this index
# for a key with a value, which has its own. Most executions succeed (10), so only other outcomes are indexed by status.
LIST_INDEXES = """
create index job_owner on job (owner, namespace, name) where owner is not null;
create index job_tag_key on job_tag ((key || ''), namespace, name);
create index audit_namespace on audit (namespace, id);
create index dead_letter_namespace on dead_letter (namespace, execution);
create index history_status on history (status, id) where status > 10;
"""

# Writers wait during the migration. It takes all locks first, so that a deadlock with a writer costs no work. It is
# then retried (see ``postgres.startup``).
LOCK_TABLES_POSTGRES = """
lock table job, gate, job_tag, audit, dead_letter, history in share row exclusive mode;
"""

VERSION_8_SQLITE = IDLE + IDLE_SQLITE + LIST_INDEXES
VERSION_8_POSTGRES = LOCK_TABLES_POSTGRES + IDLE + IDLE_POSTGRES + LIST_INDEXES

# --- version 9

# The queues and functions that a node offers (see ``shortage.Offer``).
VERSION_9 = """
alter table node add column offer {text};
"""

# An execution gets its token when it becomes ready (see ``core.fencing_token``). Before, it got the token at admission,
# so other executions may have started with higher tokens since. Ready (1) and waiting (4) executions get new tokens.
# Running ones keep theirs.
NEW_TOKENS = """
update gate set seq = seq + 1, trimmed = trimmed + 1
where job in (select job from active where status in (1, 4) and exclusive = 1);
update active set token = (select g.seq << 16 from gate as g where g.job = active.job)
where status in (1, 4) and exclusive = 1 and job in (select job from gate);
"""
LOCK_GATES_POSTGRES = """
lock table gate, active in share row exclusive mode;
"""

# Executions that were canceled (12) while their tasks waited still have open tasks in their detail. Open tasks have a
# status below 10. A task that had not started (1) becomes skipped (14), every other open task canceled (13). A detail
# that is not such JSON stays unchanged. ``status > 10`` lets the database use the index ``history_status``.
CLOSE_TASKS_SQLITE = """
update history set detail = json_set(detail, '$.group.tasks', json((
    select json_group_array(json(case when coalesce(t.value->>'status', 1) >= 10 then t.value else json_set(
        json_remove(t.value, '$.wake_us', '$.signal', '$.resumes', '$.attempt_us'), '$.finished_us', finished_us,
        '$.status', case coalesce(t.value->>'status', 1) when 1 then 14 else 13 end) end))
    from json_each(detail, '$.group.tasks') as t)))
where status = 12 and status > 10 and detail like '%"group":%'
and case when json_valid(detail) then json_type(detail, '$.group.tasks') = 'array' end;
"""
CLOSE_TASKS_POSTGRES = """
create function close_tasks(detail text, at_us bigint) returns text language plpgsql as $$ begin
    return (select json_object_agg(d.key, case d.key when 'group' then (
        select json_object_agg(g.key, case g.key when 'tasks' then (
            select json_agg(case when coalesce((t.value->>'status')::int, 1) >= 10 then t.value else (
                select json_object_agg(f.key, f.value) from (
                    select e.key, e.value from json_each(t.value) as e
                    where e.key not in ('status', 'finished_us', 'wake_us', 'signal', 'resumes', 'attempt_us')
                    union all select 'finished_us', to_json(at_us)
                    union all select 'status', to_json(case coalesce((t.value->>'status')::int, 1)
                        when 1 then 14 else 13 end)
                ) as f) end order by t.place)
            from json_array_elements(g.value) with ordinality as t (value, place)) else g.value end)
        from json_each(d.value) as g) else d.value end)::text
    from json_each(detail::json) as d);
    exception when others then return detail;
end $$;
update history set detail = close_tasks(detail, finished_us)
where status = 12 and status > 10 and detail like '%"group":%';
drop function close_tasks;
"""
VERSION_9_SQLITE = NEW_TOKENS + CLOSE_TASKS_SQLITE
VERSION_9_POSTGRES = LOCK_GATES_POSTGRES + NEW_TOKENS + CLOSE_TASKS_POSTGRES

# --- version 10

# The newest instant of a job whose execution has ended. The next execution of the job gets it.
VERSION_10 = """
alter table gate add column ran_us {int};
update gate set ran_us = (select max(h.scheduled_us) from history as h
where h.number = gate.number and h.job = gate.job and h.started_us is not null);
"""

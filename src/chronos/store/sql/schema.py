"""The tables. ``gate``, ``active`` and ``history`` carry the hot path; the rest is looked at by people.

    job ─ job_version, job_tag        definitions: large, cold; versions before the one in force
     └─ gate                          one small row a job: cursor, lock and counter
         └─ active ─► history         open executions; settling moves the row. Ended tries go to ``attempt``
                      outbox          what must follow an outcome

On SQLite jobs have no index by id: gates do, and have the numbers of their jobs.
Times are whole microseconds UTC. Placeholders in braces are filled in by the dialect.
"""

GATES = """
create table gate (
    job {id} not null primary key,
    next_us {int},
    version {int} not null,
    state {int} not null,
    overlap {int} not null,
    lim {int} not null,
    queue_max {int} not null,
    priority {int} not null,
    lane {int} not null,
    keyed {int} not null,
    active {int} not null default 0,
    queued {int} not null default 0,
    seq {int} not null default 0,
    done_us {int} not null default -4611686018427387904,
    keep_count {int} not null,
    keep_age_us {int} not null,
    trimmed {int} not null default 0
) {table}{filled};
create index gate_due on gate (next_us) where state = 0 and next_us is not null;
create index gate_long on gate (job) where seq - trimmed >= 64;
create table key_gate (
    key {id} not null primary key,
    lim {int} not null,
    active {int} not null default 0,
    queued {int} not null default 0
) {table};
create index key_gate_blocked on key_gate (key) where queued > 0;
"""

ACTIVE = """
create table active (
    id {id} not null primary key,
    job {id} not null,
    version {int} not null,
    cause {int} not null,
    scheduled_us {int} not null,
    lane {int} not null,
    rank {int} not null,
    status {int} not null,
    held {int} not null default 0,
    exclusive {int} not null default 0,
    owner {int},
    token {int} not null,
    attempt {int} not null default 1,
    admitted_us {int} not null,
    started_us {int},
    attempt_us {int},
    worked_us {int} not null default 0,
    wake_us {int},
    signal {text},
    cancel {int} not null default 0,
    key {id},
    request {id},
    detail {text}
) {table}{filled};
create index active_ready on active (lane, rank, id) where status = 1 and held = 0;
create index active_job on active (job, scheduled_us);
create index active_wake on active (wake_us, id) where status = 4 and wake_us is not null;
create index active_key on active (key) where status = 2 and key is not null;
create unique index active_one on active (job) where status = 3 and exclusive = 1;
"""

HISTORY = """
create table history (
    id {id} not null primary key,
    job {id} not null,
    version {int} not null,
    cause {int} not null,
    scheduled_us {int} not null,
    status {int} not null,
    code {text} not null,
    message {text},
    owner {int},
    token {int} not null,
    attempt {int} not null,
    admitted_us {int} not null,
    started_us {int},
    attempt_us {int},
    finished_us {int} not null,
    until_us {int},
    count {int} not null default 1,
    detail {text}
) {history};
create index history_job on history (job, id);
create index history_troubled on history (id) where status >= 20;
create table attempt (
    execution {id} not null,
    task {text} not null,
    number {int} not null,
    status {int} not null,
    started_us {int} not null,
    finished_us {int} not null,
    node {int},
    error {text},
    detail {text},
    primary key (execution, task, number)
) {attempts};
create table dead_letter (
    execution {id} not null primary key,
    job {id} not null,
    namespace {text} not null,
    failed_us {int} not null,
    code {text} not null,
    message {text}
) {table};
create table outbox (
    id {id} not null primary key,
    kind {text} not null,
    target {text} not null,
    execution {id} not null,
    body {text} not null,
    created_us {int} not null,
    owner {int}
) {table};
create table idempotency (
    namespace {text} not null,
    key {text} not null,
    execution {id} not null,
    created_us {int} not null,
    primary key (namespace, key)
) {table};
create index idempotency_age on idempotency (created_us);
"""

JOBS = """
create table job (
    id {id} not null primary key,
    namespace {text} not null,
    name {text} not null,
    incarnation {int} not null,
    version {int} not null,
    spec {text} not null,
    owner {text},
    author {text} not null,
    created_us {int} not null,
    saved_us {int} not null,
    updated_us {int} not null,
    paused_us {int},
    note {text} not null default ''
) {job};
create unique index job_name on job (namespace, name);
create table tally (
    state {int} not null primary key,
    jobs {int} not null default 0
) {table};
insert into tally (state) values (0), (1), (2), (3);
create table tombstone (
    namespace {text} not null,
    name {text} not null,
    incarnation {int} not null,
    job {id} not null,
    deleted_us {int} not null,
    primary key (namespace, name)
) {table};
create index tombstone_job on tombstone (job);
create table job_version (
    job {id} not null,
    version {int} not null,
    spec {text} not null,
    saved_us {int} not null,
    author {text} not null,
    primary key (job, version)
) {table};
create table job_tag (
    key {text} not null,
    value {text} not null,
    namespace {text} not null,
    name {text} not null,
    job {id} not null,
    primary key (key, value, namespace, name)
) {table};
create index job_tag_job on job_tag (job);
"""

OTHERS = """
create table lane (
    number {int} not null primary key,
    key {text} not null unique
) {table};
create table node (
    number {int} not null primary key,
    name {text} not null,
    incarnation {id} not null unique,
    beat {int} not null default 0,
    started_us {int} not null,
    beat_us {int} not null,
    stopped_us {int},
    slots {int} not null,
    labels {text} not null
) {table};
create table audit (
    id {id} not null primary key,
    at_us {int} not null,
    actor {text} not null,
    action {text} not null,
    namespace {text} not null,
    subject {text} not null,
    origin {text} not null,
    detail {text} not null
) {table};
"""

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

# Who follows whom goes by name, so that either may be there first; a gate knows whether its job is followed at all.
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

# For whoever reads what ended since they looked last. It grows at its end only, which costs settlements little.
ENDED = """
create index history_ended on history (finished_us, id);
"""

NAMES_SQLITE = """
create virtual table job_fts using fts5 (name, content = 'job', tokenize = 'trigram', detail = 'none');
"""
NAMES_KEPT_SQLITE = """
create trigger job_named after insert on job begin
    insert into job_fts (rowid, name) values (new.rowid, new.name);
end;
create trigger job_unnamed after delete on job begin
    insert into job_fts (job_fts, rowid, name) values ('delete', old.rowid, old.name);
end;
"""

FIRST = GATES + ACTIVE + HISTORY + JOBS + OTHERS
FIRST_SQLITE = NAMES_SQLITE + NAMES_KEPT_SQLITE

SECOND = OUTPUT + FOLLOWERS + ENDED
SECOND_SQLITE = """
update active set signal = json_array(signal) where signal is not null;
insert or ignore into job_after select j.namespace, a.value->>'job', j.id, coalesce(a.value->>'on', 'success')
from job as j, json_each(j.spec, '$.after') as a;
update gate set followed = 1
where job in (select j.id from job as j join job_after as a on a.namespace = j.namespace and a.upstream = j.name);
"""
SECOND_POSTGRES = """
create table output_default partition of output default;
update active set signal = json_build_array(signal)::text where signal is not null;
insert into job_after select j.namespace, a.value->>'job', j.id, coalesce(a.value->>'on', 'success')
from job as j cross join lateral json_array_elements(j.spec::json->'after') as a (value) on conflict do nothing;
update gate set followed = 1
where job in (select j.id from job as j join job_after as a on a.namespace = j.namespace and a.upstream = j.name);
"""

# Since when what is ready has been so; null: since it was admitted, as it is with most. Read for ``late_lanes`` only.
READY_SINCE = """
alter table active add column ready_since_us {int};
"""

# Deleted jobs of which something may still be on record, and when to look next whether it is too old.
REMAINS = """
create table remains (
    job {id} not null primary key,
    look_us {int} not null
) {table};
create index remains_look on remains (look_us, job);
insert into remains (job, look_us) select job, 0 from tombstone;
"""

THIRD = READY_SINCE + REMAINS

# For heartbeats, which ask what a node holds, however much else is open. Here neither claims nor settlements feel it;
# on SQLite they would, more than the one node or two that beat there.
THIRD_POSTGRES = """
create index active_owner on active (owner, id) where owner is not null;
"""

# What deleted jobs were called, for as long as something of theirs is on record.
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

# Why somebody asked a running execution to stop, for its end to say.
CANCEL_SAID = """
alter table active add column cancel_message {text};
"""

FOURTH = REMAINS_NAMED + TOKENS + CANCEL_SAID

# Tags of a job are found by its spec. Keys that are hashes cost each new job a page of the log, more than its row.
FOURTH_SQLITE = """
drop index job_tag_job;
"""

# A job is found by its gate, which knows the number of its row: an index of its own would be one more tree whose keys
# are hashes, and cost each new job one more page of the log.
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

# All that a look for due jobs reads, so that it need not go to each of their gates, which lie all over the table.
DUE_SQLITE = """
drop index gate_due;
create index gate_due on gate (next_us, job, version, lane, keyed, overlap) where state = 0 and next_us is not null;
"""
FIFTH_SQLITE = NUMBERED_SQLITE + NAMES_KEPT_SQLITE + DUE_SQLITE

# Gates lie in the order in which their jobs were made: what was made together is often due together, so that a batch
# of admissions, or of new jobs, touches few pages. By their ids, which are hashes, each row was on a page of its own.
SIXTH_SQLITE = """
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

# What a job came to is found by its number: that of jobs which were made together, and so often run together, lies on
# few pages, while ids, which are hashes, cost each end a page of its own. A deleted job keeps its number for as long as
# something of it is on record. Whoever does not know the number when they write leaves it to the trigger.
# Names are searched for, not ranked, so nobody needs their lengths, which cost each new job a row.
SEVENTH_SQLITE = """
create table gone (
    job blob not null primary key,
    number integer not null
) strict, without rowid;
create index gone_number on gone (number);
insert into gone select job, (select coalesce(max(number), 0) from job) + row_number() over (order by job)
    from (select job from history union select job from active union select job from remains)
    where job not in (select job from gate);
alter table history add column number integer;
update history set number = coalesce((select g.number from gate as g where g.job = history.job),
    (select o.number from gone as o where o.job = history.job));
drop index history_job;
create index history_job on history (number, id);
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
drop table job_fts;
create virtual table job_fts using fts5
    (name, content = 'job', tokenize = 'trigram', detail = 'none', columnsize = 0);
insert into job_fts (job_fts) values ('rebuild');
"""

# Weeks of history are partitions of their own (see ``partitions``). Small and busy tables are vacuumed early and often:
# the space of what was settled is used again at once. ``sent`` tells which transactions were committed.
POSTGRES_ONLY = """
create table history_default partition of history default;
create table attempt_default partition of attempt default;
create table sent (
    id uuid not null primary key,
    sent timestamptz not null default now()
);
alter table gate set (autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);
alter table active set (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000, \
autovacuum_vacuum_cost_delay = 0);
alter table outbox set (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
alter table sent set (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
"""

"""Schema version 1. ``gate``, ``active`` and ``history`` are the hot path.

    job ─ job_version, job_tag        definitions: large, rarely read; ``job_version`` has the old versions
     └─ gate                          one small row per job: cursor, lock and counters
         └─ active ─► history         open executions; settling moves the row. Ended attempts go to ``attempt``
                      outbox          items that follow an outcome

On SQLite, ``job`` has no index by id. A job is found through its gate, which has the number of the job's row.
Times are integer microseconds UTC. Statuses are numbers of ``core.execution.Status``: 1 ready, 2 queued, 3 running,
4 waiting, 20 and above failed in some way. The dialect fills in the placeholders in braces.
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

# History is partitioned by week (see ``partitions``). Small, busy tables are vacuumed early, so that the space of
# settled rows is reused soon. ``sent`` records which transactions were committed.
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

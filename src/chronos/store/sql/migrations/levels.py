"""Schema version 11: the levels of the settings cascade, and gate profiles (see ``migrations``)."""

# The levels of the settings cascade (see ``core.settings.levels``). A version of settings never changes; scope 0 has
# the server's defaults, every other scope is the number of a namespace. ``namespace.version`` is the one in force.
LEVELS = """
create table namespace (
    number {int} not null primary key,
    name {text} not null unique,
    version {int} not null default 0,
    revision {int} not null default 1,
    record {text} not null default '{{}}',
    created_us {int} not null,
    updated_us {int} not null
) {table};
create table settings_version (
    scope {int} not null,
    number {int} not null,
    settings {text} not null,
    saved_us {int} not null,
    author {text} not null,
    primary key (scope, number)
) {table};
insert into namespace (number, name, created_us, updated_us)
select row_number() over (order by namespace), namespace, min(created_us), min(created_us) from job group by namespace;
"""

# A profile has the settings of a gate: as its jobs set them (``own``), and as they are in force under ``levels``. The
# columns of a gate with the same names are as of its last save; only earlier releases use them. ``gate.profiled`` is
# the version of the job that the profile belongs to. ``ProfileGates`` gives a profile to the gates in
# ``gate_unprofiled``.
PROFILES = """
create table profile (
    number {int} not null primary key,
    namespace {int} not null,
    own_id {id} not null,
    own {text} not null,
    levels {int} not null,
    overlap {int} not null,
    lim {int} not null,
    queue_max {int} not null,
    priority {int} not null,
    lane {int} not null,
    keyed {int} not null,
    key {text},
    key_limit {int} not null,
    keep_count {int} not null,
    keep_age_us {int} not null
) {table};
create unique index profile_own on profile (namespace, own_id);
alter table gate add column profile {int};
alter table gate add column profiled {int};
create index gate_unprofiled on gate (job) where profile is null or profiled <> version;
alter table active add column levels {int} not null default 0;
alter table history add column levels {int} not null default 0;
"""
VERSION_11 = LEVELS + PROFILES

# Look-ahead needs the profile of a due gate, and no other setting.
VERSION_11_SQLITE = """
drop index gate_due;
create index gate_due on gate (next_us, number, job, version, profile) where state = 0 and next_us is not null;
"""

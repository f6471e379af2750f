"""The schema version that adds the last outcomes of jobs and their days (see ``migrations``)."""

# Since when a job fails, and the end of its last success. Settlements write both with the counters of the gate. The
# statuses 10 and 20 succeeded, 21 and 22 failed. ``status > 10`` lets the database use the index ``history_status``.
LAST_OUTCOMES = """
alter table gate add column failing_us {int};
alter table gate add column succeeded_us {int};
update gate set succeeded_us = (select max(h.finished_us) from history as h
where h.number = gate.number and h.job = gate.job and h.status in (10, 20));
update gate set failing_us = (select min(h.finished_us) from history as h
where h.number = gate.number and h.job = gate.job and h.status in (21, 22)
and h.finished_us > coalesce(gate.succeeded_us, -4611686018427387904))
where number in (select number from history where status > 10 and status in (21, 22));
create index gate_failing on gate (number) where failing_us is not null;
"""

# Outcomes per day of history that was trimmed, one row per job and month (see ``store.day_counts``).
DAYS = """
create table job_month (
    job {id} not null,
    month {int} not null,
    days {text} not null,
    primary key (job, month)
) {table};
create index job_month_age on job_month (month, job);
"""

# How many executions other nodes took over when the node was lost; null: it was not.
TAKEN_OVER = """
alter table node add column taken_over {int};
"""

LAST_OUTCOMES_AND_DAYS = LAST_OUTCOMES + DAYS + TAKEN_OVER

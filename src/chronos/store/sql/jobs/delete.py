"""Removes the rows of deleted jobs, and inserts what is kept of them. The same on every engine.

tombstone    how many jobs have had this name, so that the next one gets another id
remains      the name of the job, kept while any record of it exists (see ``retention``)
"""

from collections import Counter
from collections.abc import Sequence

from chronos.core.job import Unreadable
from chronos.store.sql import row_mappers as record
from chronos.store.sql.append_only import AppendOnlyTables
from chronos.store.sql.executions.gates import to_id_rows
from chronos.store.sql.query import Dialect, Query, Row, Rows, Steps


class JobTags:
    """Deletes the tags of jobs."""

    def __init__(self, d: Dialect) -> None:
        self._drop = f"delete from job_tag where {d.tags_of(1)}"
        self._select_specs = f"select j.id, j.spec from job as j where {d.is_job_of('j', 1)}" if d.serial else ""
        self._drop_by_search = f"delete from job_tag where {d.one_of('job', 1)}"

    def drop(self, jobs: Rows) -> Steps[None]:
        """Delete the tags of jobs. Call it before the jobs change.

        SQLite finds the tags through the spec. If a spec is unreadable, all tags are searched.
        """
        yield Query(self._drop, rows=jobs)
        if not self._select_specs:
            return
        specs = yield Query(self._select_specs, rows=jobs)
        unreadable = [(job,) for job, text in specs if isinstance(record.to_job_spec(text), Unreadable)]
        if unreadable:
            yield Query(self._drop_by_search, rows=Rows("i", unreadable))


class JobDeletes:
    """Deletes jobs from every table."""

    def __init__(self, d: Dialect, records: AppendOnlyTables) -> None:
        self._records, self._job_tags = records, JobTags(d)
        self.insert_version = f"""
            insert into job_version (job, version, spec, saved_us, author)
            select id, version, spec, saved_us, author from job where {d.is_job_of("job", 1)}"""
        self._drop = f"delete from job where {d.is_job_of('job', 1)}"
        self._drop_gates = f"delete from gate where {d.one_of('job', 1)}"
        self._insert_tombstones = f"""
            insert into tombstone (namespace, name, incarnation, job, deleted_us)
            select * from {d.rows(1, "namespace:t name:t incarnation:n job:i deleted_us:n")} as i where true
            on conflict (namespace, name) do update set incarnation = excluded.incarnation, job = excluded.job,
                deleted_us = excluded.deleted_us"""
        self._insert_remains = f"""
            insert into remains (job, look_us, namespace, name)
            select * from {d.rows(1, "job:i look_us:n namespace:t name:t")} as i where true on conflict do nothing"""

    def delete_jobs(self, deleted: Sequence[Row], states: Counter[int], now_us: int) -> Steps[None]:
        """Delete jobs, as (id, namespace, name, incarnation), whose gates are locked.

        ``states`` is the number of these jobs in each state.
        """
        jobs = to_id_rows(row[0] for row in deleted)
        yield from self._records.add_to_tally(states, -1)
        yield Query(self.insert_version, rows=jobs)
        yield from self._job_tags.drop(jobs)
        yield Query(self._drop, rows=jobs)
        yield Query(self._drop_gates, rows=jobs)  # last, because on SQLite jobs are found through their gates
        incarnations = [(namespace, name, incarnation, job, now_us) for job, namespace, name, incarnation in deleted]
        yield Query(self._insert_tombstones, rows=Rows("ttnin", incarnations))
        yield Query(self._insert_remains, rows=Rows("intt", [(job, now_us, *names) for job, *names, _ in deleted]))

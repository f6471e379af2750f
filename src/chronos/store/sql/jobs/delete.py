"""Jobs that go: their rows are taken out, and what says that they were there is put in. The same on every engine.

A tombstone says how often there was a job of this name, so that the next one gets another id. Remains say what a job
was called for as long as something of it is on record (see ``trimming``).
"""

from collections import Counter
from collections.abc import Sequence

from chronos.store.sql.dialect import Dialect, Query, Row, Rows, Steps
from chronos.store.sql.locks import ids
from chronos.store.sql.records import Records
from chronos.store.sql.tagging import Tagging


class Burying:
    """Statements and steps."""

    def __init__(self, d: Dialect, records: Records) -> None:
        self._records, self._tagging = records, Tagging(d)
        self.keep_version = f"""
            insert into job_version (job, version, spec, saved_us, author)
            select id, version, spec, saved_us, author from job where {d.is_job_of("job", 1)}"""
        self._drop = f"delete from job where {d.is_job_of('job', 1)}"
        self._drop_gates = f"delete from gate where {d.one_of('job', 1)}"
        self._bury = f"""
            insert into tombstone (namespace, name, incarnation, job, deleted_us)
            select * from {d.rows(1, "namespace:t name:t incarnation:n job:i deleted_us:n")} as i where true
            on conflict (namespace, name) do update set incarnation = excluded.incarnation, job = excluded.job,
                deleted_us = excluded.deleted_us"""
        self._leave_remains = f"""
            insert into remains (job, look_us, namespace, name)
            select * from {d.rows(1, "job:i look_us:n namespace:t name:t")} as i where true on conflict do nothing"""

    def bury(self, doomed: Sequence[Row], states: Counter[int], now_us: int) -> Steps[None]:
        """Jobs (id, namespace, name, incarnation) whose gates are locked go; ``states``: how many in each."""
        jobs = ids(row[0] for row in doomed)
        yield from self._records.tally(states, -1)
        yield Query(self.keep_version, rows=jobs)
        yield from self._tagging.drop(jobs)
        yield Query(self._drop, rows=jobs)
        yield Query(self._drop_gates, rows=jobs)  # the last: what is to go is found by them
        buried = [(namespace, name, incarnation, job, now_us) for job, namespace, name, incarnation in doomed]
        yield Query(self._bury, rows=Rows("ttnin", buried))
        yield Query(self._leave_remains, rows=Rows("intt", [(job, now_us, *names) for job, *names, _ in doomed]))

"""Taking a job's tags off it, as they are written anew or go with it."""

from chronos.core.job import Unreadable
from chronos.store.sql import rows as record
from chronos.store.sql.dialect import Dialect, Query, Rows, Steps


class Tagging:
    """Statements and steps."""

    def __init__(self, d: Dialect) -> None:
        self._drop = f"delete from job_tag where {d.tags_of(1)}"
        self._definitions = f"select j.id, j.spec from job as j where {d.is_job_of('j', 1)}" if d.serial else ""
        self._search = f"delete from job_tag where {d.one_of('job', 1)}"

    def drop(self, jobs: Rows) -> Steps[None]:
        """While the jobs still say what they said.

        On a serial engine tags are found by that. Where it cannot be read they are searched for, among all there are.
        """
        yield Query(self._drop, rows=jobs)
        if not self._definitions:
            return
        found = yield Query(self._definitions, rows=jobs)
        lost = [(job,) for job, text in found if isinstance(record.spec(text), Unreadable)]
        if lost:
            yield Query(self._search, rows=Rows("i", lost))

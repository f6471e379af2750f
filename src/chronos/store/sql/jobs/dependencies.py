"""Dependencies between jobs: which job follows which. They go by name, so that either job may be created first.

Each gate has a mark that says whether its job is followed. A settlement reads the mark on the gate that it has locked
anyway, so jobs without followers cost nothing. The mark is changed under the gate's lock. A new job reads whether it is
followed under a lock on the followed names (see ``Dialect.lock_followed_names``).
"""

from collections.abc import Iterable, Sequence

from chronos.store.sql.query import Dialect, Query, Rows, Steps

NamespacedName = tuple[str, str]  # namespace, name
OWN_OUTCOME = "own"  # the outcome of a job that follows itself, for its ``on_complete``


class JobDependencies:
    """Reads and writes the dependencies of jobs."""

    def __init__(self, d: Dialect) -> None:
        self._upstream = f"""
            select distinct namespace, upstream from job_after where {d.one_of("follower", 1)}"""
        names = d.rows(1, "namespace:t name:t")
        self._ids = f"""
            select j.namespace, j.name, j.id from job as j join {names} as i
            on j.namespace = i.namespace and j.name = i.name
            where {d.within("j.namespace", 1)} and {d.within("j.name", 2)}"""
        self._followed = f"""
            select distinct a.namespace, a.upstream from job_after as a join {names} as i
            on a.namespace = i.namespace and a.upstream = i.name
            where {d.within("a.namespace", 1)} and {d.within("a.upstream", 2)}"""
        self._remove = f"delete from job_after where {d.one_of('follower', 1)}"
        self._add = f"""
            insert into job_after (namespace, upstream, follower, outcome)
            select * from {d.rows(1, "namespace:t upstream:t follower:i outcome:t")} as i where true
            on conflict do nothing"""
        self._mark = f"""
            update gate as g set followed = i.followed from {d.rows(1, "job:i followed:n")} as i
            where {d.within("g.job", 1)} and g.job = i.job"""

    def find_upstream(self, jobs: Sequence[bytes]) -> Steps[set[NamespacedName]]:
        """Return the names of the jobs that these jobs follow."""
        if not jobs:
            return set()
        return {(row[0], row[1]) for row in (yield Query(self._upstream, rows=Rows("i", [(job,) for job in jobs])))}

    def find_ids(self, names: Iterable[NamespacedName]) -> Steps[dict[NamespacedName, bytes]]:
        """Return the ids of the jobs with these names. Missing jobs are left out."""
        sorted_names = sorted(names)
        if not sorted_names:
            return {}
        return {(row[0], row[1]): row[2] for row in (yield Query(self._ids, rows=Rows("tt", sorted_names)))}

    def find_followed(self, names: Iterable[NamespacedName]) -> Steps[set[NamespacedName]]:
        """Return which of these names are followed by any job."""
        return {(row[0], row[1]) for row in (yield Query(self._followed, rows=Rows("tt", sorted(names))))}

    def remove(self, jobs: Sequence[bytes]) -> Steps[None]:
        """Remove the dependencies of these followers."""
        if jobs:
            yield Query(self._remove, rows=Rows("i", [(job,) for job in jobs]))

    def add(self, links: Sequence[tuple[str, str, bytes, str]]) -> Steps[None]:
        """Add dependencies: (namespace, upstream, follower, outcome)."""
        if links:
            yield Query(self._add, rows=Rows("ttit", links))

    def mark_followed(self, jobs: dict[NamespacedName, bytes]) -> Steps[None]:
        """Set the mark on the locked gates of these jobs: whether they are followed."""
        if jobs:
            followed = yield from self.find_followed(jobs)
            marks = [(job, int(name in followed)) for name, job in sorted(jobs.items())]
            yield Query(self._mark, rows=Rows("in", marks))

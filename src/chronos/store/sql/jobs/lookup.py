"""Looks up the jobs, tombstones, followers and profiles that a SaveJobs command refers to.

On SQLite this is one statement that returns one row. On PostgreSQL it takes several: whether a job is followed must be
read after the lock on the followed names.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from chronos.store.sql.jobs.dependencies import NamespacedName
from chronos.store.sql.query import Dialect, Query, Row, Rows, Steps
from chronos.store.sql.settings.profiles import Profile, ProfileKey, profile_columns, to_profiles
from chronos.store.sql.sqlite.packed_rows import pack_columns_sql, unpack_columns

_NAMES = "namespace:t name:t"


class ExistingJobs(NamedTuple):
    """What exists under the names of a SaveJobs command."""

    existing: dict[NamespacedName, Row]  # id, version, spec of existing jobs
    incarnations: dict[NamespacedName, int]  # of deleted jobs: how many jobs have had this name
    followed: set[NamespacedName]  # names of new jobs that are followed
    profiles: dict[ProfileKey, Profile] | None  # None: not looked up
    number: int  # of the next new job, on SQLite


class JobLookup:
    """Looks up names and profiles."""

    def __init__(self, d: Dialect) -> None:
        names = d.rows(1, _NAMES)
        self._existing, self._existing_for_followers = (
            f"""
            select j.namespace, j.name, j.id, j.version, j.spec from job as j join {names} as i
            on j.namespace = i.namespace and j.name = i.name
            where {d.lock_followed_names(exclusive=exclusive)}
                and {d.within("j.namespace", 1)} and {d.within("j.name", 2)}"""
            for exclusive in (False, True)
        )
        self._select_incarnations_and_followed = f"""
            select t.namespace, t.name, t.incarnation, 0 from tombstone as t join {names} as i
            on t.namespace = i.namespace and t.name = i.name
            where {d.within("t.namespace", 1)} and {d.within("t.name", 2)}
            union all select distinct a.namespace, a.upstream, 0, 1 from job_after as a join {names} as i
            on a.namespace = i.namespace and a.upstream = i.name
            where {d.within("a.namespace", 1)} and {d.within("a.upstream", 2)}"""
        self._all = _lookup_sql(d) if d.serial else ""

    def find(
        self, names: Sequence[NamespacedName], profiles: Iterable[ProfileKey], *, following: bool
    ) -> Steps[ExistingJobs]:
        """Look up names and profiles. ``following``: at least one of the jobs to save follows others."""
        if self._all:
            keys = msgspec.json.encode([(namespace, own_id.hex()) for namespace, own_id in profiles]).decode()
            return _to_existing_jobs((yield Query(self._all, (keys,), Rows("tt", names)))[0])
        rows = Rows("tt", names)
        jobs = yield Query(self._existing_for_followers if following else self._existing, rows=rows)
        existing = {(r[0], r[1]): r[2:] for r in jobs}
        marks = (yield Query(self._select_incarnations_and_followed, rows=rows)) if len(existing) < len(names) else []
        return ExistingJobs(
            existing=existing,
            incarnations={(r[0], r[1]): r[2] for r in marks if not r[3]},
            followed={(r[0], r[1]) for r in marks if r[3]},
            profiles=None,
            number=0,
        )


def _lookup_sql(d: Dialect) -> str:
    """Return one statement for everything. Its arguments are the keys of the profiles, and the names."""
    return f"""
        with i as materialized (select * from {d.rows(2, _NAMES)})
        select * from (
            select {pack_columns_sql(["j.id"], ["j.namespace", "j.name", "j.version", "j.spec"])}
            from i cross join job as j on j.namespace = i.namespace and j.name = i.name
        ), (
            select {pack_columns_sql([], ["t.namespace", "t.name", "t.incarnation"])}
            from i cross join tombstone as t on t.namespace = i.namespace and t.name = i.name
        ), (
            select {pack_columns_sql([], ["i.namespace", "i.name"])} from i
            where exists (select 1 from job_after as a where a.namespace = i.namespace and a.upstream = i.name)
        ), (
            select {pack_columns_sql(["p.own_id"], ["n.name", *profile_columns("p")])}
            from json_each($1) as w join namespace as n on n.name = w.value->>0
            join profile as p on p.namespace = n.number and p.own_id = unhex(w.value->>1)
        ), ({d.next_number()})"""


def _to_existing_jobs(row: Row) -> ExistingJobs:
    ids, spaces, names, versions, specs = unpack_columns(row[:5], ids=1)
    existing = dict(zip(zip(spaces, names, strict=True), zip(ids, versions, specs, strict=True), strict=True))
    spaces, names, incarnations, upstream_spaces, upstream = unpack_columns(row[5:10], ids=0)
    own_ids, profile_names, *profile_fields = unpack_columns(row[10:-1], ids=1)
    return ExistingJobs(
        existing=existing,
        incarnations=dict(zip(zip(spaces, names, strict=True), incarnations, strict=True)),
        followed={name for name in zip(upstream_spaces, upstream, strict=True) if name not in existing},
        profiles=to_profiles(profile_names, own_ids, *profile_fields),
        number=row[-1],
    )

"""Gate profiles: finds and creates them, and resolves them again when a level above them changes.

See ``core.settings.gate_profile``. On PostgreSQL, one transaction at a time creates or changes profiles (``mutex``).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from chronos.core.admission_policy import GateSpec
from chronos.core.config import Settings
from chronos.core.job import Unreadable
from chronos.core.settings.gate_profile import (
    Gate,
    build_gate_settings,
    profile_id,
    read_gate,
    resolve_gate,
    write_gate,
)
from chronos.core.settings.levels import Levels
from chronos.store.commands import ProfileGates
from chronos.store.sql import row_mappers as record
from chronos.store.sql.executions.gates import OVERLAPS
from chronos.store.sql.query import Dialect, Query, Row, Rows, Steps
from chronos.store.sql.settings.versions import LevelRows, NamespaceLevel

#: Served by the index ``gate_unprofiled``.
FIND_UNPROFILED = "select 1 from gate where profile is null or profiled <> version limit 1"
GATES_PER_COMMAND = 1_000
_RESOLVED = (
    "levels:n overlap:n lim:n queue_max:n priority:n lane:n keyed:n key:t key_limit:n keep_count:n keep_age_us:n"
)
_RESOLVED_NAMES = [column.split(":")[0] for column in _RESOLVED.split()]
_RESOLVED_TYPES = "".join(column[-1] for column in _RESOLVED.split())

ProfileKey = tuple[str, bytes]  # the namespace, and the hash of what its jobs set


class Profile(NamedTuple):
    """A profile: its number, the levels it was resolved under, its lane and its settings in force."""

    number: int
    levels: int
    lane: int
    gate: GateSpec


class ProfileRows:
    """Finds, creates and resolves profiles."""

    def __init__(self, d: Dialect) -> None:
        self._levels = LevelRows(d)
        self._mutex = d.mutex()
        columns = ", ".join(f"p.{name}" for name in _RESOLVED_NAMES)
        self._find = f"""
            select n.name, p.own_id, p.number, {columns} from {d.rows(1, "namespace:t own_id:i")} as i
            join namespace as n on n.name = i.namespace join profile as p on p.namespace = n.number
                and p.own_id = i.own_id
            where {d.within("n.name", 1)} and {d.within("p.own_id", 2)}"""
        self._highest = "select coalesce(max(number), 0) from profile"
        new = f"number:n namespace:n own_id:i own:t {_RESOLVED}"
        names = ", ".join(column.split(":")[0] for column in new.split())
        self._insert = f"insert into profile ({names}) select * from {d.rows(1, new)} as i"
        self._all = "select number, namespace, own from profile order by number"
        self._of_namespace = "select number, namespace, own from profile where namespace = $1 order by number"
        values = ", ".join(f"{name} = i.{name}" for name in _RESOLVED_NAMES)
        self._update = f"""
            update profile as p set {values} from {d.rows(1, f"number:n {_RESOLVED}")} as i where p.number = i.number"""
        self._lanes = f"select key, number from lane where {d.one_of('key', 1, 't')}"
        self._highest_lane = "select coalesce(max(number), 0) from lane"
        self._add_lanes = f"insert into lane (number, key) select * from {d.rows(1, 'number:n key:t')} as i"
        self._unprofiled = f"""
            select g.job, g.version, j.namespace, j.spec, j.created_us, g.overlap, g.lim, g.queue_max, g.priority,
                (select l.key from lane as l where l.number = g.lane), g.keyed, g.keep_count, g.keep_age_us
            from gate as g join job as j on {d.gate_of("g", "j")}
            where g.profile is null or g.profiled <> g.version order by g.job limit $1 {d.lock_or_skip("g")}"""
        self._set_profiles = f"""
            update gate as g set profile = i.profile, profiled = i.version
            from {d.rows(1, "job:i version:n profile:n")} as i
            where {d.within("g.job", 1)} and g.job = i.job and g.version = i.version"""

    def find_or_create(
        self, wanted: Mapping[ProfileKey, Gate], now_us: int, known: Mapping[ProfileKey, Profile] | None = None
    ) -> Steps[dict[ProfileKey, Profile]]:
        """Return the profiles of gates. Missing profiles, namespaces and lanes are created.

        ``known``: the caller has looked for them already.
        """
        found = dict(known) if known is not None else (yield from self._select(wanted))
        if len(found) == len(wanted):
            return found
        if self._mutex:
            yield Query(self._mutex)
            found = yield from self._select(wanted)
        missing = {key: gate for key, gate in wanted.items() if key not in found}
        if missing:
            levels = yield from self._levels.find_or_create({namespace for namespace, _ in missing}, now_us)
            found |= yield from self._create(missing, levels)
        return found

    def resolve_again(self, namespace: int | None = None) -> Steps[int]:
        """Resolve all profiles again, or those of one namespace. The caller holds the mutex. Returns their number."""
        rows = (yield Query(self._all)) if namespace is None else (yield Query(self._of_namespace, (namespace,)))
        levels = {level.number: level for level in (yield from self._levels.all())}
        gates = [(number, levels[scope], read_gate(own)) for number, scope, own in rows]
        resolved = yield from self._resolve([(level, gate) for _, level, gate in gates])
        if rows:
            values = [(number, *values) for (number, _, _), values in zip(gates, resolved, strict=True)]
            yield Query(self._update, rows=Rows("n" + _RESOLVED_TYPES, values))
        return len(rows)

    def profile_gates(self, command: ProfileGates) -> Steps[int]:
        """See ``ProfileGates``."""
        rows = yield Query(self._unprofiled, (command.limit,))
        if not rows:
            return 0
        wanted: dict[ProfileKey, Gate] = {}
        keys: list[ProfileKey] = []
        for row in rows:
            gate = _read_unprofiled_gate(row)
            keys.append((row[2], profile_id(write_gate(gate))))
            wanted[keys[-1]] = gate
        profiles = yield from self.find_or_create(wanted, min(row[4] for row in rows))
        values = [(row[0], row[1], profiles[key].number) for row, key in zip(rows, keys, strict=True)]
        yield Query(self._set_profiles, rows=Rows("inn", values))
        return len(rows)

    def _select(self, wanted: Iterable[ProfileKey]) -> Steps[dict[ProfileKey, Profile]]:
        rows = yield Query(self._find, rows=Rows("ti", list(wanted)))
        return {(row[0], row[1]): _to_profile(row[2], row[3:]) for row in rows}

    def _create(
        self, missing: Mapping[ProfileKey, Gate], levels: Mapping[str, NamespaceLevel]
    ) -> Steps[dict[ProfileKey, Profile]]:
        ordered = sorted(missing.items(), key=lambda item: item[0])
        resolved = yield from self._resolve([(levels[namespace], gate) for (namespace, _), gate in ordered])
        [(highest,)] = yield Query(self._highest)
        rows = [
            (highest + 1 + place, levels[namespace].number, own_id, write_gate(gate), *values)
            for place, (((namespace, own_id), gate), values) in enumerate(zip(ordered, resolved, strict=True))
        ]
        yield Query(self._insert, rows=Rows("nnit" + _RESOLVED_TYPES, rows))
        return {key: _to_profile(row[0], row[4:]) for (key, _), row in zip(ordered, rows, strict=True)}

    def _resolve(self, gates: Sequence[tuple[NamespaceLevel, Gate]]) -> Steps[list[Row]]:
        """Return the ``_RESOLVED`` columns of each gate."""
        specs: list[tuple[Levels, GateSpec]] = []
        for level, gate in gates:
            specs.append((level.levels, resolve_gate(gate, *_upper(level))))
        lanes = yield from self._number_lanes(sorted({spec.lane for _, spec in specs}))
        return [
            (
                *(levels.pack(), OVERLAPS.index(spec.overlap), spec.limit, spec.queue_max, spec.priority),
                *(lanes[spec.lane], int(spec.keyed), spec.key, spec.key_limit, spec.keep_count, spec.keep_age_us),
            )
            for levels, spec in specs
        ]

    def _number_lanes(self, keys: Sequence[str]) -> Steps[dict[str, int]]:
        """Return the numbers of lanes. New lanes get the next numbers."""
        lanes: dict[str, int] = dict((yield Query(self._lanes, rows=Rows("t", [(key,) for key in keys]))))
        missing = [key for key in keys if key not in lanes]
        if missing:
            [(highest,)] = yield Query(self._highest_lane)
            numbered = [(highest + 1 + place, key) for place, key in enumerate(missing)]
            yield Query(self._add_lanes, rows=Rows("nt", numbered))
            lanes |= {key: number for number, key in numbered}
        return lanes


def _upper(level: NamespaceLevel) -> tuple[Settings, Settings]:
    return level.defaults, level.settings


def profile_columns(profile: str) -> list[str]:
    """Return the columns that ``to_profiles`` expects, besides the namespace's name and ``own_id``."""
    return [f"{profile}.{name}" for name in ("number", *_RESOLVED_NAMES)]


def to_profiles(names: Sequence[str], own_ids: Sequence[bytes], *columns: Sequence[Any]) -> dict[ProfileKey, Profile]:
    """Build profiles from the columns of a query."""
    rows = zip(*columns, strict=True)
    return {key: _to_profile(row[0], row[1:]) for key, row in zip(zip(names, own_ids, strict=True), rows, strict=True)}


def _to_profile(number: int, resolved: Row) -> Profile:
    values = dict(zip(_RESOLVED_NAMES, resolved, strict=True))
    gate = GateSpec(
        overlap=OVERLAPS[values["overlap"]],
        limit=values["lim"],
        queue_max=values["queue_max"],
        priority=values["priority"],
        keyed=bool(values["keyed"]),
        key=values["key"],
        key_limit=values["key_limit"],
        keep_count=values["keep_count"],
        keep_age_us=values["keep_age_us"],
    )
    return Profile(number, values["levels"], values["lane"], gate)


def _read_unprofiled_gate(row: Row) -> Gate:
    """Return what a job sets, from its spec. If that is unreadable, the columns of its gate stay in force."""
    spec = record.to_job_spec(row[3])
    if not isinstance(spec, Unreadable):
        return build_gate_settings(spec)
    overlap, limit, queue_max, priority, lane, keyed, keep_count, keep_age_us = row[5:]
    return GateSpec(
        overlap=OVERLAPS[overlap],
        limit=limit,
        queue_max=queue_max,
        priority=priority,
        lane=lane or "default",
        keyed=bool(keyed),
        keep_count=keep_count,
        keep_age_us=keep_age_us,
    )

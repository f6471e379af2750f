"""Inserts new jobs into every table, with one statement per table, whatever the number of jobs.

Thousands of jobs may share a spec or gate settings, so each is encoded once.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice

import msgspec

from chronos.core.ids import job_ids
from chronos.core.node import Actor
from chronos.store.commands import JobRow, Saved, SaveJobs
from chronos.store.sql.append_only import AppendOnlyTables, AuditLineRow
from chronos.store.sql.executions.gates import OVERLAPS
from chronos.store.sql.jobs.dependencies import NamespacedName
from chronos.store.sql.query import Dialect, Query, Row, Rows, Steps
from chronos.store.sql.settings.profiles import Profile

GATE_COLUMNS = (
    "job:i next_us:n version:n state:n overlap:n lim:n queue_max:n priority:n lane:n keyed:n keep_count:n "
    "keep_age_us:n profile:n profiled:n"
)
GATE_NAMES = tuple(column.split(":")[0] for column in GATE_COLUMNS.split())
GATE_TYPES = "i" + "n" * 13
_JOB_COLUMNS = (
    "id:i namespace:t name:t incarnation:n version:n spec:t owner:t author:t created_us:n saved_us:n updated_us:n"
)
_JOB_TYPES = "ittnntttnnn"
_TAG_COLUMNS = "job:i key:t value:t namespace:t name:t"
_JOBS_PER_AUDIT_LINE = 20  # more jobs of one command share a line of the audit log
_encode = msgspec.json.Encoder(order="deterministic").encode

EncodedJob = tuple[JobRow, str, Saved]  # the str is the spec as JSON
ProfilesByGate = Mapping[tuple[str, int], Profile]  # by namespace and the identity of the gate settings


class JobInserts:
    """Inserts new jobs, and the tags and audit lines of saved jobs."""

    def __init__(self, d: Dialect, records: AppendOnlyTables) -> None:
        self._records = records
        self._numbered = bool(d.next_number())
        self._create, self._add_gates = self._insert(d, "job", _JOB_COLUMNS), self._insert(d, "gate", GATE_COLUMNS)
        self._add_tags = f"""
            insert into job_tag (job, key, value, namespace, name) select * from {d.rows(1, _TAG_COLUMNS)} as i"""

    def _insert(self, d: Dialect, table: str, columns: str) -> str:
        columns += " number:n" if self._numbered else ""
        names = ", ".join(column.split(":")[0] for column in columns.split())
        return f"insert into {table} ({names}) select * from {d.rows(1, columns)} as i"

    def insert(
        self, new: Sequence[EncodedJob], number: int, profiles: ProfilesByGate, command: SaveJobs
    ) -> Steps[None]:
        """Insert all rows of new jobs. On SQLite, ``number`` is the number of the first one.

        The jobs of merged commands are in the order of the commands.
        """
        if not new:
            return
        rows = [(row, saved) for row, _, saved in new]
        yield self._add(self._create, _JOB_TYPES, _job_rows(new, command), number)
        yield self._add(self._add_gates, GATE_TYPES, gate_rows(rows, profiles), number)
        yield from self.tag_and_audit("create", rows, command)
        yield from self._records.add_to_tally(Counter(int(row.state) for row, _ in rows))

    def _add(self, sql: str, types: str, rows: Sequence[Row], number: int) -> Query:
        if self._numbered:
            types, rows = types + "n", [(*row, number + place) for place, row in enumerate(rows)]
        return Query(sql, rows=Rows(types, rows))

    def tag_and_audit(self, verb: str, saved: Sequence[tuple[JobRow, Saved]], command: SaveJobs) -> Steps[None]:
        """Insert the tags of jobs that have none yet, and the audit lines."""
        tags = [(s.id, *tag, r.namespace, r.name) for r, s in saved for tag in r.spec.tags.items()]
        if tags:
            yield Query(self._add_tags, rows=Rows("itttt", tags))
        yield from self._records.audit_lines(_audit_lines_of_parts(verb, saved, command))


def encode_specs(rows: Sequence[JobRow]) -> list[str]:
    """Return the specs as JSON. A shared spec is encoded once."""
    specs = {id(row.spec): row.spec for row in rows}
    encoded = {key: _encode(spec).decode() for key, spec in specs.items()}
    return [encoded[id(row.spec)] for row in rows]


def classify_rows(
    rows: Sequence[JobRow],
    names: Sequence[NamespacedName],
    specs: Sequence[str],
    existing: Mapping[NamespacedName, Row],
    incarnations: Mapping[NamespacedName, int],
) -> tuple[list[Saved], list[EncodedJob], list[EncodedJob], list[EncodedJob]]:
    """Return the answer of each row, and the rows that are new, that change, and that only switch their state."""
    new_answers = iter(_new_saved_jobs([name for name in names if name not in existing], incarnations))
    saved: list[Saved] = []
    new: list[EncodedJob] = []
    changed: list[EncodedJob] = []
    switched: list[EncodedJob] = []
    for row, spec, name in zip(rows, specs, names, strict=True):
        if name in existing:
            job, version, old_spec = existing[name]
            same = old_spec == spec
            switches = same and row.expect_state is not None and row.expect_state is not row.state
            answer = Saved(job, version if same else version + 1, created=False, changed=switches or not same)
            if not same:
                changed.append((row, spec, answer))
            elif switches:
                switched.append((row, spec, answer))
        else:
            answer = next(new_answers)
            new.append((row, spec, answer))
        saved.append(answer)
    return saved, new, changed, switched


def _new_saved_jobs(names: Sequence[NamespacedName], incarnations: Mapping[NamespacedName, int]) -> list[Saved]:
    """Return the answers for new jobs with these names."""
    numbered = [(*name, incarnations.get(name, 0) + 1) for name in names]
    return [
        Saved(job, 1, created=True, changed=True, incarnation=incarnation)
        for job, (_, _, incarnation) in zip(job_ids(numbered), numbered, strict=True)
    ]


def _job_rows(new: Sequence[EncodedJob], command: SaveJobs) -> list[Row]:
    """Return rows of ``_JOB_COLUMNS``, each with the author and time of its part of the command."""
    remaining = iter(new)
    rows: list[Row] = []
    for part in command.parts:
        author_and_times = (part.actor.name, part.now_us, part.now_us, part.now_us)
        rows += [
            (saved.id, row.namespace, row.name, saved.incarnation, 1, spec, row.spec.owner, *author_and_times)
            for row, spec, saved in (islice(remaining, len(part.rows)) if command.merged else remaining)
        ]
    return rows


def gate_rows(saved: Iterable[tuple[JobRow, Saved]], profiles: ProfilesByGate) -> list[Row]:
    """Return rows of ``GATE_COLUMNS``."""
    known: dict[int, Row] = {}
    rows: list[Row] = []
    for row, answer in saved:
        profile = profiles[row.namespace, id(row.gate)]
        settings = known.get(id(profile))
        if settings is None:
            settings = known[id(profile)] = _gate_settings(profile)
        rows.append((answer.id, row.next_us, answer.version, int(row.state), *settings, answer.version))
    return rows


def audit_lines_about_jobs(verb: str, jobs: Sequence[tuple[str, str, str]]) -> list[AuditLineRow]:
    """Return audit lines about jobs, as (namespace, name, detail): one per job, or one per namespace if many."""
    if len(jobs) <= _JOBS_PER_AUDIT_LINE:
        return [(verb, *job) for job in jobs]
    names: dict[str, list[str]] = {}
    for namespace, name, _ in jobs:
        names.setdefault(namespace, []).append(name)
    return [
        (verb, namespace, own[0] if len(own) == 1 else f"{own[0]} and {len(own) - 1} more", ", ".join(own))
        for namespace, own in sorted(names.items())
    ]


def _audit_lines_of_parts(
    verb: str, saved: Sequence[tuple[JobRow, Saved]], command: SaveJobs
) -> list[tuple[Actor, int, AuditLineRow]]:
    """Return the audit lines of saved jobs, each with the actor and time of its part of the command."""
    lines: list[tuple[Actor, int, AuditLineRow]] = []
    remaining = iter(saved)
    for part in command.parts:
        own = list(islice(remaining, len(part.rows)) if command.merged else remaining)
        old_version = part.rollback_to
        jobs = [(r.namespace, r.name, f"version {s.version}") for r, s in own]
        if old_version is not None:
            verb = "rollback"
            jobs = [
                (r.namespace, r.name, f"version {s.version - 1} to {s.version}, as version {old_version}")
                for r, s in own
            ]
        lines += [(part.actor, part.now_us, line) for line in audit_lines_about_jobs(verb, jobs)]
    return lines


def _gate_settings(profile: Profile) -> Row:
    """Return the columns of ``GATE_COLUMNS`` from ``overlap`` to ``profile``."""
    gate = profile.gate
    return (
        *(OVERLAPS.index(gate.overlap), gate.limit, gate.queue_max, gate.priority),
        *(profile.lane, int(gate.keyed), gate.keep_count, gate.keep_age_us, profile.number),
    )

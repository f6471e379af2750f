"""New jobs: their rows in every table, one statement per table whatever their number.

Jobs come by the thousand, and much of what they say is the same: a spec or a gate that several of them share is
written out once.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice

import msgspec

from chronos.core.ids import job_ids
from chronos.core.node import Actor
from chronos.core.policy import GateSpec
from chronos.store.commands import JobRow, Saved, SaveJobs
from chronos.store.sql.append_only import AppendOnlyTables, AuditLineRow
from chronos.store.sql.executions.gates import OVERLAPS
from chronos.store.sql.jobs.dependencies import NamespacedName
from chronos.store.sql.query import Dialect, Query, Row, Rows, Steps

GATE_COLUMNS = (
    "job:i next_us:n version:n state:n overlap:n lim:n queue_max:n priority:n lane:n keyed:n keep_count:n keep_age_us:n"
)
GATE_NAMES = tuple(column.split(":")[0] for column in GATE_COLUMNS.split())
GATE_TYPES = "i" + "n" * 11
_JOB_COLUMNS = (
    "id:i namespace:t name:t incarnation:n version:n spec:t owner:t author:t created_us:n saved_us:n updated_us:n"
)
_JOB_TYPES = "ittnntttnnn"
_TAG_COLUMNS = "job:i key:t value:t namespace:t name:t"
_JOBS_PER_AUDIT_LINE = 20  # jobs saved by one command, after which they share a line of the audit log
_encode = msgspec.json.Encoder(order="deterministic").encode

EncodedJob = tuple[JobRow, str, Saved]  # with its spec as JSON


class JobInserts:
    """Statements and steps."""

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
        self, new: Sequence[EncodedJob], number: int, lanes: Mapping[str, int], command: SaveJobs
    ) -> Steps[None]:
        """Write all rows of new jobs, the first of which has this number where jobs have numbers.

        Those of merged commands are in the order of the commands.
        """
        if not new:
            return
        rows = [(row, saved) for row, _, saved in new]
        yield self._add(self._create, _JOB_TYPES, _job_rows(new, command), number)
        yield self._add(self._add_gates, GATE_TYPES, gate_rows(rows, lanes), number)
        yield from self.tag_and_audit("create", rows, command)
        yield from self._records.add_to_tally(Counter(int(row.state) for row, _ in rows))

    def _add(self, sql: str, types: str, rows: Sequence[Row], number: int) -> Query:
        if self._numbered:
            types, rows = types + "n", [(*row, number + place) for place, row in enumerate(rows)]
        return Query(sql, rows=Rows(types, rows))

    def tag_and_audit(self, verb: str, saved: Sequence[tuple[JobRow, Saved]], command: SaveJobs) -> Steps[None]:
        """Write the tags of jobs that have none, and who saved them."""
        tags = [(s.id, *tag, r.namespace, r.name) for r, s in saved for tag in r.spec.tags.items()]
        if tags:
            yield Query(self._add_tags, rows=Rows("itttt", tags))
        yield from self._records.audit_lines(_audit_lines_of_parts(verb, saved, command))


def encode_specs(rows: Sequence[JobRow]) -> list[str]:
    """The specs as JSON; one that several jobs share is written out once."""
    specs = {id(row.spec): row.spec for row in rows}
    written = {key: _encode(spec).decode() for key, spec in specs.items()}
    return [written[id(row.spec)] for row in rows]


def classify_rows(
    rows: Sequence[JobRow],
    names: Sequence[NamespacedName],
    specs: Sequence[str],
    existing: Mapping[NamespacedName, Row],
    incarnations: Mapping[NamespacedName, int],
) -> tuple[list[Saved], list[EncodedJob], list[EncodedJob], list[EncodedJob]]:
    """What becomes of each row; and apart from the others those that are new, that change, that are switched only."""
    fresh = iter(_new_saved_jobs([name for name in names if name not in existing], incarnations))
    saved: list[Saved] = []
    new: list[EncodedJob] = []
    changed: list[EncodedJob] = []
    switched: list[EncodedJob] = []
    for row, spec, name in zip(rows, specs, names, strict=True):
        if name in existing:
            job, version, before = existing[name]
            same = before == spec
            switches = same and row.expect_state is not None and row.expect_state is not row.state
            answer = Saved(job, version if same else version + 1, created=False, changed=switches or not same)
            if not same:
                changed.append((row, spec, answer))
            elif switches:
                switched.append((row, spec, answer))
        else:
            answer = next(fresh)
            new.append((row, spec, answer))
        saved.append(answer)
    return saved, new, changed, switched


def _new_saved_jobs(names: Sequence[NamespacedName], incarnations: Mapping[NamespacedName, int]) -> list[Saved]:
    """The answers for new jobs of these names."""
    numbered = [(*name, incarnations.get(name, 0) + 1) for name in names]
    return [
        Saved(job, 1, created=True, changed=True, incarnation=incarnation)
        for job, (_, _, incarnation) in zip(job_ids(numbered), numbered, strict=True)
    ]


def _job_rows(new: Sequence[EncodedJob], command: SaveJobs) -> list[Row]:
    """Rows of ``_JOB_COLUMNS``, each with the author and time of its part of the command."""
    left = iter(new)
    rows: list[Row] = []
    for part in command.parts:
        said = (part.actor.name, part.now_us, part.now_us, part.now_us)
        rows += [
            (saved.id, row.namespace, row.name, saved.incarnation, 1, spec, row.spec.owner, *said)
            for row, spec, saved in (islice(left, len(part.rows)) if command.others else left)
        ]
    return rows


def gate_rows(saved: Iterable[tuple[JobRow, Saved]], lanes: Mapping[str, int]) -> list[Row]:
    """Rows of ``GATE_COLUMNS``."""
    known: dict[int, Row] = {}
    rows: list[Row] = []
    for row, answer in saved:
        gate = row.gate
        settings = known.get(id(gate))
        if settings is None:
            settings = known[id(gate)] = _gate_settings(gate, lanes)
        rows.append((answer.id, row.next_us, answer.version, int(row.state), *settings))
    return rows


def audit_lines_about_jobs(verb: str, jobs: Sequence[tuple[str, str, str]]) -> list[AuditLineRow]:
    """Lines of the audit log about jobs, by (namespace, name, detail): one each, or one per namespace for many."""
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
    """Who saved them, of each part of a command, which are in its order where there are several."""
    lines: list[tuple[Actor, int, AuditLineRow]] = []
    left = iter(saved)
    for part in command.parts:
        own = list(islice(left, len(part.rows)) if command.others else left)
        back = part.rollback_to
        said = [(r.namespace, r.name, f"version {s.version}") for r, s in own]
        if back is not None:
            verb = "rollback"
            said = [(r.namespace, r.name, f"version {s.version - 1} to {s.version}, as version {back}") for r, s in own]
        lines += [(part.actor, part.now_us, line) for line in audit_lines_about_jobs(verb, said)]
    return lines


def _gate_settings(gate: GateSpec, lanes: Mapping[str, int]) -> Row:
    """The last columns of ``GATE_COLUMNS``."""
    return (
        *(OVERLAPS.index(gate.overlap), gate.limit, gate.queue_max, gate.priority),
        *(lanes[gate.lane], int(gate.keyed), gate.keep_count, gate.keep_age_us),
    )

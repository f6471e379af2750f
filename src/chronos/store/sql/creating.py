"""New jobs: their rows in every table, many at a time.

Jobs come by the thousand, and much of what they say is the same: a spec or a gate that several of them share is
written out once.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain, repeat
from typing import Any, NamedTuple

import msgspec

from chronos.core.ids import job_ids
from chronos.core.job import JobSpec
from chronos.core.node import Actor
from chronos.core.policy import GateSpec
from chronos.store.commands import JobRow, Saved, SaveJobs
from chronos.store.sql.dialect import Columns, Dialect, Query, Row, Rows, Steps, json_rows
from chronos.store.sql.followers import Name
from chronos.store.sql.locks import OVERLAPS
from chronos.store.sql.records import Line, Records, audit_rows, tally_rows

GATE = (
    "job:i next_us:n version:n state:n overlap:n lim:n queue_max:n priority:n lane:n keyed:n keep_count:n keep_age_us:n"
)
GATE_NAMES = tuple(column.split(":")[0] for column in GATE.split())
GATE_TYPES = "i" + "n" * 11
_JOB = "id:i namespace:t name:t incarnation:n version:n spec:t owner:t author:t created_us:n saved_us:n updated_us:n"
_JOB_NAMES = tuple(column.split(":")[0] for column in _JOB.split())
_MANY = 20  # jobs saved by one command, after which they share a line of the audit log
_MOST_KEPT = 8_192  # specs
_FEW = 100  # jobs, for which a statement costs more than what is in it
_PUT = "insert into temp.chronos_creating (jobs, gates, tags, lines, counts) values ($1, $2, $3, $4, $5)"
_encode = msgspec.json.Encoder(order="deterministic").encode
_saved: Callable[[tuple[Any, ...]], Saved] = partial(tuple.__new__, Saved)  # thrice as fast as calling it


Written = tuple[JobRow, str, Saved]  # with its spec as JSON


class New(NamedTuple):
    """Jobs that are to be created, by the column."""

    rows: Sequence[JobRow]
    specs: Sequence[str]  # as JSON
    saved: Sequence[Saved]


class Creating:
    """Statements and steps."""

    def __init__(self, d: Dialect, records: Records) -> None:
        self._records, self._serial = records, d.serial
        self._kept: dict[int, tuple[JobSpec, str]] = {}
        number, names = (" number:n", ("number",)) if d.next_number() else ("", ())
        self._job_names, self._gate_names = _JOB_NAMES + names, GATE_NAMES + names
        self._create = f"insert into job ({', '.join(self._job_names)}) select * from {d.rows(1, _JOB + number)} as i"
        self._add_gates = (
            f"insert into gate ({', '.join(self._gate_names)}) select * from {d.rows(1, GATE + number)} as i"
        )
        common = [f"cast(${n} as {d.types()['int']})" for n in range(1, len(GATE_NAMES) - 1)]
        self._add_like_gates = f"""
            insert into gate ({", ".join(GATE_NAMES)}) select i.job, i.next_us, {", ".join(common)}
            from {d.rows(len(common) + 1, "job:i next_us:n")} as i order by i.job"""
        self._add_tags = f"""
            insert into job_tag (job, key, value, namespace, name)
            select * from {d.rows(1, "job:i key:t value:t namespace:t name:t")} as i"""

    def insert(self, new: New, number: int, lanes: Mapping[str, int], command: SaveJobs) -> Steps[None]:
        """All rows of new jobs, the first of which has this number where jobs have numbers.

        Those of merged commands are in the order of the commands.
        """
        rows, saved = new.rows, new.saved
        if not rows:
            return
        gate, states = rows[0].gate, Counter([int(row.state) for row in rows])
        alike = len(states) == 1 and _is_all([row.gate for row in rows], gate)
        common = (1, *states, *gate_settings(gate, lanes)) if alike else ()
        jobs, gates = self._jobs(new, number, command), self._gates(new, common, number, lanes)
        if self._serial and len(rows) <= _FEW:
            others = (
                _tags(rows, saved).rows(),
                audit_rows(lines_about("create", rows, saved, command)),
                tally_rows(states),
            )
            yield Query(_PUT, tuple(json_rows(rows) for rows in (jobs.rows(), gates.rows(), *others)))
            return
        yield Query(self._create, columns=jobs)
        if alike and not self._serial:
            yield Query(self._add_like_gates, common, Rows("in", list(zip(*gates.values[:2], strict=True))))
        else:
            yield Query(self._add_gates, columns=gates)
        yield from self._tag_and_audit("create", rows, saved, command)
        yield from self._records.tally(states)

    def _jobs(self, new: New, number: int, command: SaveJobs) -> Columns:
        rows, count = new.rows, len(new.rows)
        authors, times = [command.actor.name] * count, [command.now_us] * count
        if command.others:
            authors = [part.actor.name for part in command.parts for _ in part.rows]
            times = [part.now_us for part in command.parts for _ in part.rows]
        values: list[Sequence[Any]] = [
            *([s.id for s in new.saved], [r.namespace for r in rows], [r.name for r in rows]),
            *([s.incarnation for s in new.saved], [1] * count, new.specs, [r.spec.owner for r in rows]),
            *(authors, times, times, times),
        ]
        return self._numbered(Columns("job", self._job_names, "ittnntttnnn", values), number)

    def _gates(self, new: New, common: Row, number: int, lanes: Mapping[str, int]) -> Columns:
        """``common``: what all of them say after their first two columns, if they do."""
        values: list[Sequence[Any]]
        if common:
            ids, next_us = [s.id for s in new.saved], [r.next_us for r in new.rows]
            values = [ids, next_us, *([one] * len(ids) for one in common)]
        else:
            values = list(zip(*gate_rows(zip(new.rows, new.saved, strict=True), lanes), strict=True))
        return self._numbered(Columns("gate", self._gate_names, GATE_TYPES, values), number)

    def _numbered(self, columns: Columns, number: int) -> Columns:
        """With the numbers of the jobs where they have some."""
        if len(columns.names) == len(columns.types):
            return columns
        numbers = range(number, number + len(columns.values[0]))
        return columns._replace(types=columns.types + "n", values=[*columns.values, numbers])

    def tag_and_audit(self, verb: str, saved: Sequence[tuple[JobRow, Saved]], command: SaveJobs) -> Steps[None]:
        """Tags of jobs that have none, and who saved them."""
        yield from self._tag_and_audit(verb, [r for r, _ in saved], [s for _, s in saved], command)

    def _tag_and_audit(
        self, verb: str, rows: Sequence[JobRow], saved: Sequence[Saved], command: SaveJobs
    ) -> Steps[None]:
        tags = _tags(rows, saved)
        if tags.values[0]:
            yield Query(self._add_tags, columns=tags)
        yield from self._records.audit_all(lines_about(verb, rows, saved, command))

    def encoded(self, rows: Sequence[JobRow]) -> list[str]:
        """The specs as JSON. One that several jobs share is often that of the next ones, too, and kept, up to a bound.

        It goes by identity, which is why specs are kept with it.
        """
        specs = [row.spec for row in rows]
        apart = {id(spec): spec for spec in specs}
        if len(apart) == len(specs):
            return [_encode(spec).decode() for spec in specs]
        if len(self._kept) + len(apart) > _MOST_KEPT:
            self._kept = {}  # another thread may be at the one before
        kept = self._kept
        for key in apart.keys() - kept.keys():
            kept[key] = apart[key], _encode(apart[key]).decode()
        return [kept[id(spec)][1] for spec in specs]

    def few(self) -> str:
        """What a connection to a serial engine needs to create a few jobs by one statement: a view to put them into."""
        parts = {
            "jobs": self._create,
            "gates": self._add_gates,
            "tags": self._add_tags,
            "lines": self._records.add_lines,
            "counts": self._records.count,
        }
        body = "".join(f"{sql.replace('$1', f'new.{name}')};" for name, sql in parts.items())
        return f"""
            create temp view chronos_creating as select {", ".join(f"null as {name}" for name in parts)};
            create temp trigger chronos_create instead of insert on chronos_creating begin {body} end;"""


def sorted_out(
    rows: Sequence[JobRow],
    names: Sequence[Name],
    specs: Sequence[str],
    existing: Mapping[Name, Row],
    buried: Mapping[Name, int],
) -> tuple[list[Saved], New, list[Written], list[Written]]:
    """What becomes of each row; and apart from the others those that are new, that change, that are switched only."""
    if not existing:
        all_new = made(names, buried)
        return all_new, New(rows, specs, all_new), [], []
    fresh = iter(made([name for name in names if name not in existing], buried))
    saved: list[Saved] = []
    new: list[Written] = []
    changed: list[Written] = []
    turned: list[Written] = []
    for row, spec, name in zip(rows, specs, names, strict=True):
        if name in existing:
            job, version, before = existing[name]
            same = before == spec
            turns = same and row.was is not None and row.was is not row.state
            answer = Saved(job, version if same else version + 1, created=False, changed=turns or not same)
            if not same:
                changed.append((row, spec, answer))
            elif turns:
                turned.append((row, spec, answer))
        else:
            answer = next(fresh)
            new.append((row, spec, answer))
        saved.append(answer)
    return saved, New(*zip(*new, strict=True)) if new else New((), (), ()), changed, turned


def made(names: Sequence[Name], buried: Mapping[Name, int]) -> list[Saved]:
    """The answers for new jobs of these names."""
    incarnations = [buried.get(name, 0) + 1 for name in names] if buried else [1] * len(names)
    spaces, own = zip(*names, strict=True) if names else ((), ())
    ids = job_ids(zip(spaces, own, incarnations, strict=True))
    return list(map(_saved, zip(ids, repeat(1), repeat(True), repeat(True), incarnations, strict=False)))


def gate_rows(saved: Iterable[tuple[JobRow, Saved]], lanes: Mapping[str, int]) -> list[Row]:
    """Rows of ``GATE``."""
    known: dict[int, Row] = {}
    rows: list[Row] = []
    for row, answer in saved:
        gate = row.gate
        settings = known.get(id(gate))
        if settings is None:
            settings = known[id(gate)] = gate_settings(gate, lanes)
        rows.append((answer.id, row.next_us, answer.version, int(row.state), *settings))
    return rows


def told(verb: str, jobs: Sequence[tuple[str, str, str]]) -> list[Line]:
    """Lines of the audit log about jobs, by (namespace, name, detail): one each, or one a namespace for many."""
    if len(jobs) <= _MANY:
        return [(verb, *job) for job in jobs]
    return _told_together(verb, [job[0] for job in jobs], [job[1] for job in jobs])


def _told_together(verb: str, namespaces: Sequence[str], jobs: Sequence[str]) -> list[Line]:
    """Lines about many jobs: one a namespace."""
    names: dict[str, list[str]] = {}
    if _is_all(namespaces, namespaces[0]):
        names[namespaces[0]] = [*jobs]
    else:
        for namespace, name in zip(namespaces, jobs, strict=True):
            names.setdefault(namespace, []).append(name)
    return [
        (verb, namespace, own[0] if len(own) == 1 else f"{own[0]} and {len(own) - 1} more", ", ".join(own))
        for namespace, own in sorted(names.items())
    ]


def lines_about(
    verb: str, rows: Sequence[JobRow], saved: Sequence[Saved], command: SaveJobs
) -> list[tuple[Actor, int, Line]]:
    """Who saved them, of each part of a command, which are in its order where there are several."""
    lines: list[tuple[Actor, int, Line]] = []
    at = 0
    for part in command.parts:
        end = at + len(part.rows) if command.others else len(rows)
        own = rows[at:end]
        if len(own) > _MANY:  # which are told without their versions
            said = _told_together(verb, [r.namespace for r in own], [r.name for r in own])
        else:
            versions = [f"version {s.version}" for s in saved[at:end]]
            if part.back_to is not None:
                verb = "rollback"
                versions = [f"version {s.version - 1} to {s.version}, as version {part.back_to}" for s in saved[at:end]]
            said = told(verb, [(r.namespace, r.name, version) for r, version in zip(own, versions, strict=True)])
        lines += [(part.actor, part.now_us, line) for line in said]
        at = end
    return lines


def _tags(rows: Sequence[JobRow], saved: Sequence[Saved]) -> Columns:
    """Rows of ``job_tag``."""
    tags, ids = [r.spec.tags for r in rows], [s.id for s in saved]
    columns: list[list[Any]]
    if _is_all(counts := list(map(len, tags)), 1):
        keys, values = list(chain.from_iterable(tags)), list(chain.from_iterable(map(dict.values, tags)))
        columns = [ids, keys, values, [r.namespace for r in rows], [r.name for r in rows]]
    elif any(counts):
        columns = [
            [job for job, count in zip(ids, counts, strict=True) for _ in range(count)],
            [key for own in tags for key in own],
            [value for own in tags for value in own.values()],
            [r.namespace for r, count in zip(rows, counts, strict=True) for _ in range(count)],
            [r.name for r, count in zip(rows, counts, strict=True) for _ in range(count)],
        ]
    else:
        columns = [[], [], [], [], []]
    return Columns("job_tag", ("job", "key", "value", "namespace", "name"), "itttt", columns)


def _is_all(values: Sequence[Any], one: Any) -> bool:
    """Whether all of them are this one."""
    return values.count(one) == len(values)


def gate_settings(gate: GateSpec, lanes: Mapping[str, int]) -> Row:
    """The last columns of ``GATE``."""
    return (
        *(OVERLAPS.index(gate.overlap), gate.limit, gate.queue_max, gate.priority),
        *(lanes[gate.lane], int(gate.keyed), gate.keep_count, gate.keep_age_us),
    )

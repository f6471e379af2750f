"""New jobs: their rows in every table, many at a time.

Jobs come by the thousand, and much of what they say is the same: a spec or a gate that several of them share is
written out once.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import repeat
from operator import itemgetter

import msgspec

from chronos.core.ids import job_id
from chronos.core.node import Actor
from chronos.core.policy import GateSpec
from chronos.store.commands import JobRow, Saved, SaveJobs
from chronos.store.sql.dialect import Dialect, Query, Row, Rows, Steps
from chronos.store.sql.followers import Name
from chronos.store.sql.locks import OVERLAPS
from chronos.store.sql.records import Line, Records

GATE = (
    "job:i next_us:n version:n state:n overlap:n lim:n queue_max:n priority:n lane:n keyed:n keep_count:n keep_age_us:n"
)
GATE_NAMES = tuple(column.split(":")[0] for column in GATE.split())
GATE_TYPES = "i" + "n" * 11
_JOB = "id:i namespace:t name:t incarnation:n version:n spec:t owner:t author:t created_us:n saved_us:n updated_us:n"
_JOB_NAMES = tuple(column.split(":")[0] for column in _JOB.split())
_MANY = 20  # jobs saved by one command, after which they share a line of the audit log
_encode = msgspec.json.Encoder(order="deterministic").encode


Written = tuple[JobRow, str, Saved]  # with its spec as JSON


class Creating:
    """Statements and steps."""

    def __init__(self, d: Dialect, records: Records) -> None:
        self._records = records
        self._next_number = d.next_number()
        number, names = (" number:n", ("number",)) if self._next_number else ("", ())
        self._job_names, self._gate_names = _JOB_NAMES + names, GATE_NAMES + names
        self._create = f"insert into job ({', '.join(self._job_names)}) select * from {d.rows(1, _JOB + number)} as i"
        self._add_gates = (
            f"insert into gate ({', '.join(self._gate_names)}) select * from {d.rows(1, GATE + number)} as i"
        )
        common = [f"cast(${n} as {d.types()['int']})" for n in range(1, len(GATE_NAMES) - 1)]
        self._add_like_gates = f"""
            insert into gate ({", ".join(self._gate_names)})
            select i.job, i.next_us, {", ".join([*common, *(f"i.{name}" for name in names)])}
            from {d.rows(len(common) + 1, "job:i next_us:n" + number)} as i"""
        self._add_tags = f"""
            insert into job_tag (job, key, value, namespace, name)
            select * from {d.rows(1, "job:i key:t value:t namespace:t name:t")} as i"""

    def insert(self, new: Sequence[Written], lanes: Mapping[str, int], command: SaveJobs) -> Steps[None]:
        """All rows of new jobs; those of merged commands are in the order of the commands."""
        if not new:
            return
        numbers = yield from self._numbers(len(new))
        jobs = [
            (s.id, r.namespace, r.name, s.incarnation, 1, spec, r.spec.owner, author, now_us, now_us, now_us)
            for (r, spec, s), (author, now_us) in zip(new, _stamps(command), strict=False)
        ]
        yield Query(self._create, rows=_numbered("ittnntttnnn", jobs, numbers), into=("job", self._job_names))
        states = Counter([r.state for r, _, _ in new])
        first = new[0][0].gate
        if len(states) == 1 and all(r.gate is first for r, _, _ in new):
            cursors = _numbered("in", [(s.id, r.next_us) for r, _, s in new], numbers)
            common = (1, *map(int, states), *_settings(first, lanes))
            yield Query(self._add_like_gates, common, rows=_in_order(cursors))
        else:
            gates = _numbered(GATE_TYPES, gate_rows([(r, s) for r, _, s in new], lanes), numbers)
            yield Query(self._add_gates, rows=_in_order(gates), into=("gate", self._gate_names))
        yield from self.tag_and_audit([(r, s) for r, _, s in new], command)
        yield from self._records.tally(Counter({int(state): count for state, count in states.items()}))

    def _numbers(self, count: int) -> Steps[range | None]:
        """Those of so many new jobs; None where they have none."""
        if not self._next_number:
            return None
        [(first,)] = yield Query(self._next_number)
        return range(first, first + count)

    def tag_and_audit(self, saved: Sequence[tuple[JobRow, Saved]], command: SaveJobs) -> Steps[None]:
        """Tags of jobs that have none, and who saved them."""
        tags = [(s.id, k, v, r.namespace, r.name) for r, s in saved if r.spec.tags for k, v in r.spec.tags.items()]
        if tags:
            yield Query(self._add_tags, rows=Rows("itttt", tags))
        at = 0
        lines: list[tuple[Actor, int, Line]] = []
        for part in command.parts:
            own = saved[at : at + len(part.rows)] if command.others else saved
            lines += [(part.actor, part.now_us, line) for line in _lines(own)]
            at += len(own)
        yield from self._records.audit_all(lines)


def encoded(rows: Sequence[JobRow]) -> list[str]:
    """The specs as JSON."""
    done: dict[int, str] = {}
    specs: list[str] = []
    for row in rows:
        spec = done.get(id(row.spec))
        if spec is None:
            spec = done[id(row.spec)] = _encode(row.spec).decode()
        specs.append(spec)
    return specs


def sorted_out(
    rows: Sequence[JobRow],
    names: Sequence[Name],
    specs: Sequence[str],
    existing: Mapping[Name, Row],
    buried: Mapping[Name, int],
) -> tuple[list[Saved], list[Written], list[Written], list[Written]]:
    """What becomes of each row; and apart from the others those that are new, that change, that are switched only."""
    saved: list[Saved] = []
    new: list[Written] = []
    changed: list[Written] = []
    turned: list[Written] = []
    for row, spec, name in zip(rows, specs, names, strict=True):
        if existing and name in existing:
            job, version, before = existing[name]
            same = before == spec
            turns = same and row.was is not None and row.was is not row.state
            answer = Saved(job, version if same else version + 1, created=False, changed=turns or not same)
            if not same:
                changed.append((row, spec, answer))
            elif turns:
                turned.append((row, spec, answer))
        else:
            incarnation = buried.get(name, 0) + 1
            answer = Saved(job_id(*name, incarnation), 1, True, True, incarnation)
            new.append((row, spec, answer))
        saved.append(answer)
    return saved, new, changed, turned


def _numbered(types: str, rows: Sequence[Row], numbers: range | None) -> Rows:
    """Rows of new jobs, each with its number where there are numbers."""
    if numbers is None:
        return Rows(types, rows)
    return Rows(types + "n", [(*row, number) for row, number in zip(rows, numbers, strict=True)])


def _in_order(gates: Rows) -> Rows:
    """As they lie in their table, which spares its engine some ways back and forth."""
    return gates._replace(values=sorted(gates.values, key=itemgetter(0)))


def gate_rows(saved: Iterable[tuple[JobRow, Saved]], lanes: Mapping[str, int]) -> list[Row]:
    """Rows of ``GATE``."""
    known: dict[int, Row] = {}
    rows: list[Row] = []
    for row, answer in saved:
        gate = row.gate
        settings = known.get(id(gate))
        if settings is None:
            settings = known[id(gate)] = _settings(gate, lanes)
        rows.append((answer.id, row.next_us, answer.version, int(row.state), *settings))
    return rows


def told(verb: str, jobs: Sequence[tuple[str, str, str]], *, many: bool | None = None) -> list[Line]:
    """Lines of the audit log about jobs, by (namespace, name, detail): one each, or one a namespace for many."""
    if not (len(jobs) > _MANY if many is None else many):
        return [(verb, *job) for job in jobs]
    names: dict[str, list[str]] = {}
    for namespace, name, _ in jobs:
        names.setdefault(namespace, []).append(name)
    return [
        (verb, namespace, own[0] if len(own) == 1 else f"{own[0]} and {len(own) - 1} more", ", ".join(own))
        for namespace, own in sorted(names.items())
    ]


def _lines(saved: Sequence[tuple[JobRow, Saved]]) -> list[Line]:
    lines: list[Line] = []
    many = len(saved) > _MANY  # which are told without their versions
    for verb, created in (("create", True), ("update", False)):
        jobs = [(r.namespace, r.name, "" if many else f"version {s.version}") for r, s in saved if s.created is created]
        lines += told(verb, jobs, many=many)
    return lines


def _settings(gate: GateSpec, lanes: Mapping[str, int]) -> Row:
    """The last columns of ``GATE``."""
    return (
        *(OVERLAPS.index(gate.overlap), gate.limit, gate.queue_max, gate.priority),
        *(lanes[gate.lane], int(gate.keyed), gate.keep_count, gate.keep_age_us),
    )


def _stamps(command: SaveJobs) -> Iterable[tuple[str, int]]:
    """By whom and when each of the rows is saved."""
    if not command.others:
        return repeat((command.actor.name, command.now_us))
    return [(part.actor.name, part.now_us) for part in command.parts for _ in part.rows]

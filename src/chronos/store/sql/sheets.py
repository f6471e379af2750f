"""New jobs by the thousand, worked out before it is their turn.

All who write a SQLite file wait for the same thread, so what can be done beside it is: a large command of new jobs that
differ in little is brought into the form of the statements' arguments, its sheet, by whoever sends it. What
is left for the transaction is to see that all of them are new, and to run the statements. A command without a sheet,
or whose jobs are not all new, goes the usual way (see ``jobs``), which writes the same.
"""

from collections import Counter
from collections.abc import Sequence
from itertools import accumulate, chain
from typing import Any, NamedTuple

import msgspec

from chronos.core.ids import ID_BYTES
from chronos.core.node import Actor
from chronos.core.policy import GateSpec
from chronos.store.commands import NEW, JobRow, Saved, SaveJobs
from chronos.store.sql.creating import GATE_NAMES, Creating, gate_settings, lines_about, made
from chronos.store.sql.dialect import Query, Steps
from chronos.store.sql.looking import Looking
from chronos.store.sql.records import Line, Records

_MANY = 100  # jobs of a command, from which on a sheet is worth it
_PARTS = 8  # commands in one: the statement tells so many authors and times apart
_ID = f"substr($2, {ID_BYTES} * i.key + 1, {ID_BYTES})"
_encode = msgspec.json.Encoder().encode


class Alike(NamedTuple):
    """What all jobs of a sheet have in common."""

    namespace: str
    gate: GateSpec
    state: int
    owner: str | None
    tag: tuple[str, str] | None  # the one and only that each of them has


class Sheet(NamedTuple):
    """The new jobs of a command, by the column: ids behind each other, all else as JSON without its brackets."""

    alike: Alike
    saved: list[Saved]
    ids: bytes
    names: bytes  # namespace and name
    jobs: bytes  # name and spec
    next_us: bytes
    tagged: bytes  # the job of each tag, where they have others
    tags: bytes  # key, value, name of the job
    lines: list[tuple[Actor, int, Line]]  # of the audit log


class Sheets:
    """Makes sheets, keeps them until it is their turn, and writes them."""

    def __init__(self, looking: Looking, creating: Creating, records: Records) -> None:
        self._looking, self._creating, self._records = looking, creating, records
        self._waiting: dict[int, tuple[Sequence[JobRow], Sheet]] = {}  # by the rows' identity, so they are kept with it

    def fits(self, command: SaveJobs) -> bool:
        """Whether a command may be worth a sheet."""
        if len(command.rows) < _MANY or command.delete or command.idempotency is not None:
            return False
        return command.rows[0].expect == NEW

    def prepare(self, command: SaveJobs) -> None:
        """Make the sheet of such a command, which is about to be sent, if its jobs are much alike. On any thread."""
        alike = _alike(command.rows)
        if alike is None:
            return
        try:
            self._waiting[id(command.rows)] = command.rows, self._sheet(command, alike)
        except UnicodeEncodeError:
            return  # half a character: the usual way tells whose it is

    def forget(self, command: SaveJobs) -> None:
        """Throw the sheet of a command away, if it is still there."""
        self._waiting.pop(id(command.rows), None)

    def create(self, command: SaveJobs) -> Steps[list[Saved] | None]:
        """Apply a command all of whose parts have sheets that agree. None: it is to go the usual way."""
        kept = [self._waiting.pop(id(part.rows), None) for part in command.parts]
        sheets = [one[1] for one in kept if one is not None]
        if len(sheets) < len(kept) or len(sheets) > _PARTS or any(s.alike != sheets[0].alike for s in sheets):
            return None
        alike = sheets[0].alike
        found = yield from self._looking.look_at(_joined(s.names for s in sheets), [alike.gate.lane])
        if found.existing or found.buried or found.followed or not found.lanes:
            return None
        yield from self._insert(sheets, found.number, found.lanes, command)
        yield from self._records.audit_all(chain.from_iterable(s.lines for s in sheets))
        saved = list(chain.from_iterable(s.saved for s in sheets))
        yield from self._records.tally(Counter({alike.state: len(saved)}))
        return saved

    def _sheet(self, command: SaveJobs, alike: Alike) -> Sheet:
        rows = command.rows
        names = [(alike.namespace, row.name) for row in rows]
        saved = made(names, {})
        tags = [(s.id, r.name, r.spec.tags) for r, s in zip(rows, saved, strict=True) if alike.tag is None]
        return Sheet(
            alike=alike,
            saved=saved,
            ids=b"".join([one.id for one in saved]),
            names=_bare(names),
            jobs=_bare([(row.name, spec) for row, spec in zip(rows, self._creating.encoded(rows), strict=True)]),
            next_us=_bare([row.next_us for row in rows]),
            tagged=b"".join([job for job, _, own in tags for _ in own]),
            tags=_bare([(*tag, name) for _, name, own in tags for tag in own.items()]),
            lines=lines_about("create", rows, saved, command),
        )

    def _insert(self, sheets: Sequence[Sheet], number: int, lanes: dict[str, int], command: SaveJobs) -> Steps[None]:
        """``or fail``: see ``packed.inserting``."""
        alike, ids = sheets[0].alike, b"".join([s.ids for s in sheets])
        ends = list(accumulate(len(s.saved) for s in sheets))
        authors, times = ([*chain.from_iterable(zip(ends, said, strict=True))] for said in _whose(command))
        author, time = _stretches(6, len(ends)), _stretches(6 + len(authors), len(ends))
        yield Query(
            f"""insert or fail into job (id, namespace, name, incarnation, version, spec, owner, author, created_us,
                saved_us, updated_us, number)
            select {_ID}, $4, i.value->>0, 1, 1, i.value->>1, $5, {author}, {time}, {time}, {time}, $3 + i.key
            from jsonb_each($1) as i""",
            (_joined(s.jobs for s in sheets), ids, number, alike.namespace, alike.owner, *authors, *times),
        )
        settings = (1, alike.state, *gate_settings(alike.gate, lanes))
        places = ", ".join(f"${4 + n}" for n in range(len(settings)))
        yield Query(
            f"""insert or fail into gate ({", ".join(GATE_NAMES)}, number)
            select {_ID}, i.value, {places}, $3 + i.key from jsonb_each($1) as i""",
            (_joined(s.next_us for s in sheets), ids, number, *settings),
        )
        yield from self._tag(sheets, ids)

    def _tag(self, sheets: Sequence[Sheet], ids: bytes) -> Steps[None]:
        alike, tagged = sheets[0].alike, b"".join([s.tagged for s in sheets])
        if alike.tag is not None:
            yield Query(
                f"""insert or fail into job_tag (job, key, value, namespace, name)
                select {_ID}, $4, $5, $3, i.value->>0 from jsonb_each($1) as i""",
                (_joined(s.jobs for s in sheets), ids, alike.namespace, *alike.tag),
            )
        elif tagged:
            yield Query(
                f"""insert or fail into job_tag (job, key, value, namespace, name)
                select {_ID}, i.value->>0, i.value->>1, $3, i.value->>2 from jsonb_each($1) as i""",
                (_joined(s.tags for s in sheets if s.tags), tagged, alike.namespace),
            )


def _alike(rows: Sequence[JobRow]) -> Alike | None:
    """What these have in common; None: too little, or they are no plain new jobs."""
    first, specs = rows[0], {id(row.spec): row.spec for row in rows}.values()  # many say the same
    owner, tags = first.spec.owner, first.spec.tags
    if any(spec.after or spec.on_complete is not None or spec.owner != owner for spec in specs):
        return None
    said = {(row.namespace, id(row.gate), row.state, row.expect, row.run) for row in rows}
    if len(said) > 1 or first.expect != NEW or first.run is not None or len({row.name for row in rows}) < len(rows):
        return None
    one_tag = len(tags) == 1 and all(spec.tags == tags for spec in specs)
    return Alike(first.namespace, first.gate, int(first.state), owner, next(iter(tags.items())) if one_tag else None)


def _whose(command: SaveJobs) -> tuple[list[Any], list[Any]]:
    return [part.actor.name for part in command.parts], [part.now_us for part in command.parts]


def _stretches(first: int, count: int) -> str:
    """What to select where rows up to a key say one thing: so many pairs of these, from an argument on."""
    cases = [f"when i.key < ${first + 2 * n} then ${first + 2 * n + 1}" for n in range(count)]
    return f"case {' '.join(cases)} end"


def _bare(values: Sequence[Any]) -> bytes:
    return _encode(values)[1:-1]


def _joined(lists: Any) -> str:
    return f"[{b','.join(lists).decode()}]"

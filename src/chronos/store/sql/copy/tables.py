"""The tables of a store that a copy contains, with their columns and keys.

A test compares them with the schema, so that a migration cannot forget the copy.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from chronos.store.sql.query import Dialect, Query, Row, Rows, Steps

Key = tuple[Any, ...]
_SMALL_PAGE, _LARGE_PAGE = 100, 500  # rows; small for tables with long texts
_MAX_PAGE_CHARACTERS = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiedTable:
    """One table: its columns, as in ``Dialect.rows``, and the names of its key columns."""

    name: str
    columns: str
    key: tuple[str, ...]
    page_rows: int = _LARGE_PAGE
    derived: bool = False  # triggers fill it, so it is verified but not written

    @property
    def column_names(self) -> list[str]:
        return [column.partition(":")[0] for column in self.columns.split()]

    def key_of(self, row: Row) -> Key:
        """Return the key of a row."""
        names = self.column_names
        return tuple(row[names.index(name)] for name in self.key)

    def read(self, d: Dialect, after: Key | None, until: Key | None = None) -> Steps[list[Row]]:
        """Return a page of rows in the order of their keys: those after a key, or with ``until`` all up to that key."""
        conditions, args = _range_sql([f"t.{name}" for name in self.key], after, until)
        limit = f" limit {self.page_rows}" if until is None else ""
        order = ", ".join(f"t.{name}" for name in self.key)
        sql = f"select {self._selected()} from {self._source(d)} where {conditions} order by {order}{limit}"
        return (yield Query(sql, args, standalone=True))

    def replace(self, d: Dialect, after: Key | None, until: Key | None, rows: Sequence[Row]) -> Steps[None]:
        """Replace all rows after one key up to another; None means from the start or to the end."""
        conditions, args = _range_sql(self.key, after, until)
        yield Query(f"delete from {self.name} where {conditions}", args)
        if rows:
            names = ", ".join(self._written(d))
            types = "".join(column.partition(":")[2] for column in self.columns.split())
            yield Query(
                f"insert into {self.name} ({names}) select {names} from {d.rows(1, self.columns)} as i",
                rows=Rows(types, rows),
            )

    def _selected(self) -> str:
        return ", ".join(f"t.{name}" for name in self.column_names)

    def _source(self, d: Dialect) -> str:
        return f"{self.name} as t"

    def _written(self, d: Dialect) -> list[str]:
        return self.column_names


class _Jobs(CopiedTable):
    """The jobs. On SQLite a job has the number of its gate; on PostgreSQL only the gate has it."""

    __slots__ = ()

    def _selected(self) -> str:
        return ", ".join(f"{'g' if name == 'number' else 't'}.{name}" for name in self.column_names)

    def _source(self, d: Dialect) -> str:
        return f"job as t left join gate as g on {d.gate_of('g', 't')}"

    def _written(self, d: Dialect) -> list[str]:
        return [name for name in self.column_names if name != "number" or d.name == "sqlite"]


def take_page(table: CopiedTable, rows: Sequence[Row]) -> Sequence[Row]:
    """Return the first rows whose texts fit into one write, at least one row."""
    characters = 0
    for count, row in enumerate(rows):
        characters += sum(len(value) for value in row if isinstance(value, str))
        if count and characters > _MAX_PAGE_CHARACTERS:
            return rows[:count]
    return rows


def _range_sql(names: Sequence[str], after: Key | None, until: Key | None) -> tuple[str, Key]:
    columns = f"({', '.join(names)})"
    conditions, args = ["true"], list[Any]()
    for operator, bound in ((">", after), ("<=", until)):
        if bound is not None:
            places = ", ".join(f"${len(args) + i + 1}" for i in range(len(bound)))
            conditions.append(f"{columns} {operator} ({places})")
            args += bound
    return " and ".join(conditions), tuple(args)


def _table(name: str, columns: str, *key: str, page_rows: int = _LARGE_PAGE, derived: bool = False) -> CopiedTable:
    return CopiedTable(name=name, columns=columns, key=key, page_rows=page_rows, derived=derived)


#: In the order of the copy: triggers of ``gate`` read ``job``, and those of ``gate`` and ``remains`` change ``gone``.
COPIED_TABLES: tuple[CopiedTable, ...] = (
    _table("lane", "number:n key:t", "number"),
    _table(
        "node",
        "number:n name:t incarnation:i beat:n started_us:n beat_us:n stopped_us:n slots:n labels:t offer:t "
        "taken_over:n",
        "number",
    ),
    _table("namespace", "number:n name:t version:n revision:n record:t created_us:n updated_us:n", "number"),
    _table("settings_version", "scope:n number:n settings:t saved_us:n author:t", "scope", "number"),
    _table(
        "profile",
        "number:n namespace:n own_id:i own:t levels:n overlap:n lim:n queue_max:n priority:n lane:n keyed:n key:t "
        "key_limit:n keep_count:n keep_age_us:n",
        "number",
    ),
    _Jobs(
        name="job",
        columns="id:i namespace:t name:t incarnation:n version:n spec:t owner:t author:t created_us:n saved_us:n "
        "updated_us:n paused_us:n note:t number:n",
        key=("namespace", "name"),
        page_rows=_SMALL_PAGE,
    ),
    _table(
        "gate",
        "job:i next_us:n version:n state:n overlap:n lim:n queue_max:n priority:n lane:n keyed:n active:n queued:n "
        "seq:n done_us:n keep_count:n keep_age_us:n trimmed:n followed:n number:n ran_us:n "
        "profile:n profiled:n failing_us:n succeeded_us:n",
        "job",
    ),
    _table("key_gate", "key:i lim:n active:n queued:n", "key"),
    _table("job_version", "job:i version:n spec:t saved_us:n author:t", "job", "version", page_rows=_SMALL_PAGE),
    _table("job_tag", "key:t value:t namespace:t name:t job:i", "key", "value", "namespace", "name"),
    _table("job_after", "namespace:t upstream:t follower:i outcome:t", "namespace", "upstream", "follower", "outcome"),
    _table("tombstone", "namespace:t name:t incarnation:n job:i deleted_us:n", "namespace", "name"),
    _table("remains", "job:i look_us:n namespace:t name:t", "job"),
    _table("gone", "job:i number:n", "job"),
    _table("tally", "state:n jobs:n", "state"),
    _table("idle", "number:n job:i state:n namespace:t name:t", "number", derived=True),
    _table(
        "active",
        "id:i job:i version:n cause:n scheduled_us:n lane:n rank:n status:n held:n exclusive:n owner:n token:n "
        "attempt:n admitted_us:n started_us:n attempt_us:n worked_us:n wake_us:n signal:t cancel:n key:i request:i "
        "detail:t ready_since_us:n cancel_message:t levels:n",
        "id",
        page_rows=_SMALL_PAGE,
    ),
    _table(
        "history",
        "id:i job:i version:n cause:n scheduled_us:n status:n code:t message:t owner:n token:n attempt:n "
        "admitted_us:n started_us:n attempt_us:n finished_us:n until_us:n count:n detail:t number:n "
        "levels:n",
        "id",
    ),
    _table(
        "attempt",
        "execution:i task:t number:n status:n started_us:n finished_us:n node:n error:t detail:t",
        "execution",
        "task",
        "number",
    ),
    _table(
        "output",
        "execution:i task:t number:n part:n text:t",
        "execution",
        "task",
        "number",
        "part",
        page_rows=_SMALL_PAGE,
    ),
    _table("job_month", "job:i month:n days:t", "job", "month"),
    _table("dead_letter", "execution:i job:i namespace:t failed_us:n code:t message:t", "execution"),
    _table("outbox", "id:i kind:t target:t execution:i body:t created_us:n owner:n", "id", page_rows=_SMALL_PAGE),
    _table("idempotency", "namespace:t key:t execution:i created_us:n", "namespace", "key"),
    _table("token", "name:t hash:t role:t namespaces:t created_us:n expires_us:n author:t", "name"),
    _table("audit", "id:i at_us:n actor:t action:t namespace:t subject:t origin:t detail:t", "id"),
)

"""What differs between the two SQL dialects, in one place. Statements are written with ``$1`` placeholders.

Many rows go into a statement as its last argument (``Rows``): a table the statement selects from. SQLite gets one JSON
text, PostgreSQL one array a column. Either way a batch is one statement, whatever its size. For SQLite that matters
more than it seems: each step of a statement hands the interpreter lock over, and a busy event loop gives it back only
after milliseconds, so a thousand small steps are a thousand such waits.
"""

import re
from collections.abc import Callable, Generator, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

import msgspec

from chronos.core.ids import ID_BYTES


class Rows(NamedTuple):
    """Rows for a statement: column types as in the statement's own ``rows(...)``, and the values."""

    types: str  # one letter a column: i(d) 16 bytes, n(umber), t(ext)
    values: Sequence[Sequence[Any]]


class Query(NamedTuple):
    """One statement to run within a transaction, as yielded by the functions that know what to write."""

    sql: str
    args: tuple[Any, ...] = ()
    rows: Rows | None = None
    alone: bool = False  # stands by itself: as the first of its command or read it needs no transaction around it
    theirs: bool = False  # the user's own: what is wrong with it is for them to know, and nothing else goes wrong


T = TypeVar("T")
Row = tuple[Any, ...]
Steps = Generator[Query, list[Row], T]


class Dialect(Protocol):
    """How one engine writes what the other writes differently."""

    name: str
    serial: bool  # one writer at a time: what it reads stays so until its transaction ends
    guesses: bool  # plans go by what the engine believes to be in the tables

    def types(self) -> dict[str, str]:
        """Column types and table options, for the schema's placeholders."""

    def rows(self, start: int, columns: str) -> str:
        """A table of the ``Rows`` argument: ``rows(3, "job:i version:n")`` when two scalars come before it."""

    def one_of(self, column: str, number: int, kind: str = "i") -> str:
        """A condition: the column is one of the values of a ``Rows`` argument with one column, at this number."""

    def within(self, column: str, number: int) -> str:
        """What a join with a ``Rows`` argument implies, said once more: the column is one of those at this number.

        PostgreSQL keeps its plans, and they must hold for a table that was empty when they were made: rows are found
        by these keys, never by reading a whole table (see ``postgres.connection``). SQLite finds them by the join.
        """

    def among(self, column: str, query: str) -> str:
        """A condition: the column is one of what the query gives; it is run once, and first."""

    def ids_for_each(self, rows: str, query: str) -> str:
        """A table of ids: those that a query, which may name columns of ``i``, gives for each row ``i`` of another."""

    def then(self, column: str) -> str:
        """The end of an order, where it costs nothing: a serial engine puts equals in order, too."""

    def lock(self) -> str:
        """What locks the selected rows until the transaction ends."""

    def lock_or_skip(self) -> str:
        """The same, but rows that somebody else has locked are left out."""

    def contains(self, job: str, text: str, arg: Callable[[str], str]) -> str:
        """A condition: the name of ``job`` (a table's alias) contains the text, whatever its case.

        ``arg`` adds an argument to the statement and answers its placeholder.
        """

    def candidates(self, text: str, arg: Callable[[str], str]) -> str | None:
        """A table of the jobs (their ``found`` is the rowid) whose names may contain the text, from an index.

        None where an index does not help, or an engine finds it by itself.
        """

    def tags_of(self, number: int) -> str:
        """A condition on ``job_tag``: it is a tag of one of the jobs with the ids at this number, as they say now."""

    def is_job(self, job: str, id_: str) -> str:
        """A condition: ``job`` (a table's alias) is the job of this id, an expression."""

    def is_job_of(self, job: str, number: int) -> str:
        """A condition: ``job`` is one of those with the ids of a ``Rows`` argument with one column, at this number."""

    def gate_of(self, gate: str, job: str) -> str:
        """A condition: ``gate`` (a table's alias) is that of ``job``."""

    def next_number(self) -> str:
        """A statement: the number that the next job is to have. Empty where the engine gives it out."""

    def force_custom_plan(self) -> str:
        """A statement that has the next ones planned for their arguments; empty where no plan is kept.

        How to search best depends on how often the text occurs, which a plan made once cannot know.
        """

    def mutex(self) -> str:
        """A statement after which only one transaction at a time goes on; empty where that is so anyway."""

    def lock_followed_names(self, *, alone: bool) -> str:
        """A condition after which nobody says whom a job follows until this transaction ends; or nobody else does.

        A job that is created must not miss that it is followed.
        """

    def user_session_settings(self) -> tuple[str, str]:
        """Statements before and after those of a user: names are looked up where users have them, plans are usual."""

    def final(self, sql: str) -> str:
        """The statement as the driver takes it."""


class SqliteDialect:
    """One writer at a time, so nothing needs locking."""

    name = "sqlite"
    serial = True
    guesses = False

    def types(self) -> dict[str, str]:
        whole = "strict, without rowid"
        return {
            "id": "blob",
            "int": "integer",
            "text": "text",
            "filled": "",
            "table": whole,
            "history": whole,
            "attempts": whole,
            "job": "strict",
        }

    def rows(self, start: int, columns: str) -> str:
        parts = []
        for i, column in enumerate(columns.split()):
            name, kind = column.split(":")
            value = f"value->>{i}"
            parts.append(f"{f'unhex({value})' if kind == 'i' else value} as {name}")
        return f"(select {', '.join(parts)} from jsonb_each(${start}))"

    def one_of(self, column: str, number: int, kind: str = "i") -> str:
        return f"{column} in {self.rows(number, f'value:{kind}')}"

    def within(self, column: str, number: int) -> str:
        return "true"

    def among(self, column: str, query: str) -> str:
        return f"{column} in ({query})"

    def ids_for_each(self, rows: str, query: str) -> str:
        found = f"json_each((select json_group_array(hex(id)) from ({query})))"
        return f"(select unhex(found.value) as id from {rows} as i cross join {found} as found)"

    def then(self, column: str) -> str:
        return f", {column}"

    def lock(self) -> str:
        return ""

    def lock_or_skip(self) -> str:
        return ""

    def contains(self, job: str, text: str, arg: Callable[[str], str]) -> str:
        return f"instr(lower({job}.name), lower({arg(text)})) > 0"

    def candidates(self, text: str, arg: Callable[[str], str]) -> str | None:
        pieces = sorted({text[i : i + _TRIGRAM_LENGTH] for i in range(len(text) - _TRIGRAM_LENGTH + 1)})
        if not pieces:
            return None
        all_pieces = " AND ".join('"' + piece.replace('"', '""') + '"' for piece in pieces)
        return f"(select rowid as found from job_fts where job_fts match {arg(all_pieces)})"

    def tags_of(self, number: int) -> str:
        return f"""(key, value, namespace, name) in (
            select t.key, t.value, j.namespace, j.name
            from job as j, json_each(iif(json_valid(j.spec), j.spec, '{{}}'), '$.tags') as t
            where {self.is_job_of("j", number)})"""

    def is_job(self, job: str, id_: str) -> str:
        return f"{job}.number = (select place.number from gate as place where place.job = {id_})"

    def is_job_of(self, job: str, number: int) -> str:
        return f"{job}.number in (select place.number from gate as place where {self.one_of('place.job', number)})"

    def gate_of(self, gate: str, job: str) -> str:
        return f"{gate}.number = {job}.number"

    def next_number(self) -> str:
        return "select max(coalesce((select max(number) from job), 0), coalesce((select max(number) from gone), 0)) + 1"

    def force_custom_plan(self) -> str:
        return ""

    def mutex(self) -> str:
        return ""

    def lock_followed_names(self, *, alone: bool) -> str:
        return "true"

    def user_session_settings(self) -> tuple[str, str]:
        return "", ""

    def final(self, sql: str) -> str:
        return _PLACEHOLDER.sub(lambda found: found[1] or f"?{found[2]}", sql)


class PostgresDialect:
    """Concurrent writers: gates are locked in key order, before anything else."""

    name = "postgres"
    serial = False
    guesses = True

    def types(self) -> dict[str, str]:
        return {
            "id": "uuid",
            "int": "bigint",
            "text": 'text collate "C"',
            "filled": "with (fillfactor = 60)",
            "table": "",
            "history": "partition by range (id)",
            "attempts": "partition by range (execution)",
            "job": "",
        }

    def rows(self, start: int, columns: str) -> str:
        names, arrays = [], []
        for i, column in enumerate(columns.split()):
            name, kind = column.split(":")
            names.append(name)
            arrays.append(f"${start + i}::{_ARRAY_TYPES[kind]}")
        return f"(select * from unnest({', '.join(arrays)}) as t({', '.join(names)}))"

    def one_of(self, column: str, number: int, kind: str = "i") -> str:
        return f"{column} = any(${number}::{_ARRAY_TYPES[kind]})"

    def within(self, column: str, number: int) -> str:
        return f"{column} = any(${number})"

    def among(self, column: str, query: str) -> str:
        return f"{column} = any(array({query}))"

    def ids_for_each(self, rows: str, query: str) -> str:
        return f"(select found.id from {rows} as i cross join lateral ({query}) as found)"

    def then(self, column: str) -> str:
        return ""

    def lock(self) -> str:
        return "for update"

    def lock_or_skip(self) -> str:
        return "for update skip locked"

    def contains(self, job: str, text: str, arg: Callable[[str], str]) -> str:
        pattern = re.sub(r"([\\%_])", r"\\\1", text)
        return f"{job}.name ilike {arg(f'%{pattern}%')}"

    def candidates(self, text: str, arg: Callable[[str], str]) -> str | None:
        return None

    def tags_of(self, number: int) -> str:
        return self.one_of("job", number)

    def is_job(self, job: str, id_: str) -> str:
        return f"{job}.id = {id_}"

    def is_job_of(self, job: str, number: int) -> str:
        return self.one_of(f"{job}.id", number)

    def gate_of(self, gate: str, job: str) -> str:
        return f"{gate}.job = {job}.id"

    def next_number(self) -> str:
        return ""

    def force_custom_plan(self) -> str:
        names = dict.fromkeys(("enable_bitmapscan", "enable_sort"), "on")  # which their index needs
        anew = {"plan_cache_mode": "force_custom_plan", **names}
        settings = ", ".join(f"set_config('{name}', '{value}', true)" for name, value in anew.items())
        return f"select {settings}"

    def mutex(self) -> str:
        return f"select pg_advisory_xact_lock({NUMBERS_LOCK})"

    def lock_followed_names(self, *, alone: bool) -> str:
        return f"(select pg_advisory_xact_lock{'' if alone else '_shared'}({FOLLOWED_NAMES_LOCK}))::text is not null"

    def user_session_settings(self) -> tuple[str, str]:
        usual = {
            "search_path": '"$user", public',
            **dict.fromkeys(_RESTRICTED_PLANNER_SETTINGS, "on"),
            "plan_cache_mode": "auto",
        }
        enter = ", ".join(f"set_config('{name}', '{value}', true)" for name, value in usual.items())
        leave = ", ".join(
            f"set_config('{name}', (select reset_val from pg_settings where name = '{name}'), true)" for name in usual
        )
        return f"select {enter}", f"select {leave}"

    def final(self, sql: str) -> str:
        return sql


_TRIGRAM_LENGTH = 3
_PLACEHOLDER = re.compile(r"""('(?:[^']|'')*'|"[^"]*"|--[^\n]*)|\$(\d+)""")  # but not within what is quoted
_RESTRICTED_PLANNER_SETTINGS = ("enable_seqscan", "enable_nestloop", "enable_mergejoin", "enable_bitmapscan")
FOLLOWED_NAMES_LOCK = 0x6368726F04  # advisory lock: whoever says which job follows which
NUMBERS_LOCK = 0x6368726F01  # advisory lock: whoever gives out the next number of a lane or node
_ARRAY_TYPES = {"i": "uuid[]", "n": "bigint[]", "t": "text[]"}


def to_json_rows(rows: Rows) -> str:
    """SQLite's form of the ``Rows`` argument."""
    places = [i for i, kind in enumerate(rows.types) if kind == "i"]
    if not places:
        return msgspec.json.encode(rows.values).decode()
    ids = [row[0] for row in rows.values]
    if places == [0] and None not in ids and set(map(len, ids)) == {ID_BYTES}:
        written = b"".join(ids).hex(",", ID_BYTES).split(",")
        return msgspec.json.encode([(id_, *row[1:]) for id_, row in zip(written, rows.values, strict=False)]).decode()
    values = []
    for row in rows.values:
        changed = list(row)
        for i in places:
            if changed[i] is not None:
                changed[i] = changed[i].hex()
        values.append(changed)
    return msgspec.json.encode(values).decode()


def columns(rows: Rows) -> list[list[Any]]:
    """PostgreSQL's form: one list a column."""
    if not rows.values:
        return [[] for _ in rows.types]
    return [list(column) for column in zip(*rows.values, strict=True)]

"""Queries, steps and the Dialect protocol: how the shared code writes SQL for both engines.

Statements use ``$1`` placeholders. A batch is passed as the last argument (``Rows``), a table that the statement
selects from: one JSON text on SQLite, one array per column on PostgreSQL. So a batch is one statement, whatever its
size. On SQLite this matters for a second reason: each step of a statement releases the interpreter lock, and a busy
event loop returns it only after milliseconds.

Handlers and reads are generators (``Steps``). They yield a ``Query``, receive its rows, and return their result. The
engine runs them on its connection.
"""

from collections.abc import Callable, Generator, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar


class Rows(NamedTuple):
    """A batch for a statement: the column types, as in ``Dialect.rows``, and the values."""

    types: str  # one letter per column: i(d) of 16 bytes, n(umber), t(ext)
    values: Sequence[Sequence[Any]]


class Query(NamedTuple):
    """One statement to run within a transaction."""

    sql: str
    args: tuple[Any, ...] = ()
    rows: Rows | None = None
    standalone: bool = False  # as the first statement of a command or read, needs no transaction
    from_user: bool = False  # a user's statement: its errors are the user's, as ``Invalid``


T = TypeVar("T")
Row = tuple[Any, ...]
Steps = Generator[Query, list[Row], T]


class Dialect(Protocol):
    """The SQL that differs between the engines."""

    name: str
    serial: bool  # one writer at a time: rows read in a transaction cannot change before it ends
    plans_from_statistics: bool  # the planner depends on table statistics

    def types(self) -> dict[str, str]:
        """Return the column types and table options for the placeholders of migrations."""

    def rows(self, start: int, columns: str) -> str:
        """Return a table made of the ``Rows`` argument: ``rows(3, "job:i version:n")`` after two scalar arguments."""

    def one_of(self, column: str, number: int, kind: str = "i") -> str:
        """Return a condition: the column is one of the values of the one-column ``Rows`` argument ``number``."""

    def within(self, column: str, number: int) -> str:
        """Return a condition that repeats what a join with the ``Rows`` argument implies, for PostgreSQL's planner.

        PostgreSQL keeps plans, perhaps from when a table was empty. With this condition it finds rows by their keys
        instead of reading the whole table (see ``postgres.session_settings``). SQLite does not need it.
        """

    def profiles_of(self, profile: str, number: int) -> str:
        """Return a condition that repeats what a join of gates, by the jobs in ``Rows`` argument ``number``, implies.

        With it, PostgreSQL finds the profiles of these gates by their keys. SQLite does not need it.
        """

    def among(self, column: str, query: str) -> str:
        """Return a condition: the column is in the result of the query, which runs once and first."""

    def ids_for_each(self, rows: str, query: str) -> str:
        """Return a table of the ids that ``query`` selects for each row ``i`` of ``rows``."""

    def json_rows(self, columns: Sequence[str], query: str) -> str:
        """Return an expression: the rows of a query as one JSON text of arrays; null or empty without rows."""

    def allow_sort(self) -> str:
        """Return a statement that lets the next ones sort; empty if they always may."""

    def tie_breaker(self, column: str) -> str:
        """Return a last ``order by`` column for equal rows; empty where it would cost time."""

    def lock(self, table: str = "") -> str:
        """Return the clause that locks the selected rows, or only those of ``table``, until the transaction ends."""

    def lock_or_skip(self, table: str = "") -> str:
        """Return the clause that locks rows and skips those locked by other transactions. ``table`` as for ``lock``."""

    def name_contains(self, job: str, text: str, arg: Callable[[str], str]) -> str:
        """Return a condition: the name of ``job`` (a table alias) contains the text, ignoring case.

        ``arg`` adds an argument to the statement and returns its placeholder.
        """

    def name_candidates(self, text: str, arg: Callable[[str], str]) -> str | None:
        """Return a table of the rowids (``found``) of jobs whose names may contain the text, from an index.

        None if no index helps, or if the planner finds the index by itself.
        """

    def tags_of(self, number: int) -> str:
        """Return a condition on ``job_tag``: a current tag of one of the jobs in the ``Rows`` argument ``number``."""

    def is_job(self, job: str, id_: str) -> str:
        """Return a condition: ``job`` (a table alias) has the id given by an expression."""

    def is_job_of(self, job: str, number: int) -> str:
        """Return a condition: ``job`` has one of the ids of the one-column ``Rows`` argument ``number``."""

    def gate_of(self, gate: str, job: str) -> str:
        """Return a condition: ``gate`` is the gate of ``job`` (both are table aliases)."""

    def next_number(self) -> str:
        """Return a statement that selects the number of the next job; empty if the database assigns it."""

    def force_custom_plan(self) -> str:
        """Return a statement that has the next ones planned for their arguments; empty if no plans are kept.

        The best plan of a text search depends on how often the text occurs.
        """

    def mutex(self) -> str:
        """Return a statement that admits one transaction at a time; empty on a serial engine."""

    def lock_followed_names(self, *, exclusive: bool) -> str:
        """Return a condition that locks which names are followed, until the transaction ends.

        A new job takes the shared lock to read whether it is followed. A job that follows others takes the exclusive
        lock.
        """

    def user_session_settings(self) -> tuple[str, str]:
        """Return the statements before and after a user's, which runs with the default search path and planner."""

    def to_driver_sql(self, sql: str) -> str:
        """Return the statement with the placeholders of the driver."""

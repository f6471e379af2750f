"""What differs between the two SQL dialects, in one place. Statements are written with ``$1`` placeholders.

Many rows go into a statement as its last argument (``Rows``): a table the statement selects from. SQLite gets one JSON
text, PostgreSQL one array a column. Either way a batch is one statement, whatever its size. For SQLite that matters
more than it seems: each step of a statement hands the interpreter lock over, and a busy event loop gives it back only
after milliseconds, so a thousand small steps are a thousand such waits.
"""

from collections.abc import Callable, Generator, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar


class Rows(NamedTuple):
    """Rows for a statement: column types as in the statement's own ``rows(...)``, and the values."""

    types: str  # one letter a column: i(d) 16 bytes, n(umber), t(ext)
    values: Sequence[Sequence[Any]]


class Query(NamedTuple):
    """One statement to run within a transaction, as yielded by the functions that know what to write."""

    sql: str
    args: tuple[Any, ...] = ()
    rows: Rows | None = None
    standalone: bool = False  # stands by itself: as the first of its command or read it needs no transaction around it
    from_user: bool = False  # the user's own: what is wrong with it is for them to know, and nothing else goes wrong


T = TypeVar("T")
Row = tuple[Any, ...]
Steps = Generator[Query, list[Row], T]


class Dialect(Protocol):
    """How one engine writes what the other writes differently."""

    name: str
    serial: bool  # one writer at a time: what it reads stays so until its transaction ends
    plans_from_statistics: bool  # plans go by what the engine believes to be in the tables

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

    def tie_breaker(self, column: str) -> str:
        """The end of an order, where it costs nothing: a serial engine puts equals in order, too."""

    def lock(self) -> str:
        """What locks the selected rows until the transaction ends."""

    def lock_or_skip(self) -> str:
        """The same, but rows that somebody else has locked are left out."""

    def name_contains(self, job: str, text: str, arg: Callable[[str], str]) -> str:
        """A condition: the name of ``job`` (a table's alias) contains the text, whatever its case.

        ``arg`` adds an argument to the statement and answers its placeholder.
        """

    def name_candidates(self, text: str, arg: Callable[[str], str]) -> str | None:
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

    def lock_followed_names(self, *, exclusive: bool) -> str:
        """A condition after which nobody says whom a job follows until this transaction ends; or nobody else does.

        A job that is created must not miss that it is followed.
        """

    def user_session_settings(self) -> tuple[str, str]:
        """Statements before and after those of a user: names are looked up where users have them, plans are usual."""

    def to_driver_sql(self, sql: str) -> str:
        """The statement as the driver takes it."""

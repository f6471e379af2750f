"""Migrations: ordered, forward only, under a lock. A release works with its own schema and with the next one.

Each migration has the statements that lead from the previous version. Its ``minimum`` is the oldest schema version
whose release can still work: an expanding change (a new table, a nullable column) keeps it, a contracting change raises
it to its own number. ``sqlite.connection`` and ``postgres.startup`` run the pending migrations when a store is opened.
Statements that run later belong elsewhere in ``sql``.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto

from chronos.errors import StoreBroken
from chronos.store.sql.migrations import changes, initial, levels, outcomes
from chronos.store.sql.query import Dialect


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """One version of the schema and the statements that lead to it."""

    version: int
    minimum: int  # the oldest schema version whose release can work with this one
    common: str = ""
    sqlite: str = ""
    postgres: str = ""
    sqlite_minimum: int = 0  # if SQLite needs a newer one

    def statements(self, d: Dialect) -> list[str]:
        """Return the statements to run on this store engine."""
        extra = self.sqlite if d.name == "sqlite" else self.postgres
        return [d.to_driver_sql(s) for s in _split_statements((self.common + extra).format(**d.types()))]


MIGRATIONS: Sequence[Migration] = (
    Migration(version=1, minimum=1, common=initial.FIRST, sqlite=initial.FIRST_SQLITE, postgres=initial.POSTGRES_ONLY),
    # Earlier releases do not notify followers, and know only one signal.
    Migration(
        version=2,
        minimum=2,
        common=changes.VERSION_2,
        sqlite=changes.VERSION_2_SQLITE,
        postgres=changes.VERSION_2_POSTGRES,
    ),
    Migration(version=3, minimum=2, common=changes.VERSION_3, postgres=changes.VERSION_3_POSTGRES),
    Migration(version=4, minimum=2, common=changes.VERSION_4, sqlite=changes.VERSION_4_SQLITE),
    # Earlier releases find jobs by an index that no longer exists, and insert gates without the number of their job.
    Migration(version=5, minimum=2, sqlite=changes.VERSION_5_SQLITE, sqlite_minimum=5),
    Migration(version=6, minimum=2, sqlite=changes.VERSION_6_SQLITE, sqlite_minimum=5),
    Migration(
        version=7,
        minimum=2,
        common=changes.VERSION_7,
        sqlite=changes.VERSION_7_SQLITE,
        postgres=changes.VERSION_7_POSTGRES,
        sqlite_minimum=5,
    ),
    Migration(
        version=8, minimum=2, sqlite=changes.VERSION_8_SQLITE, postgres=changes.VERSION_8_POSTGRES, sqlite_minimum=5
    ),
    Migration(
        version=9,
        minimum=2,
        common=changes.VERSION_9,
        sqlite=changes.VERSION_9_SQLITE,
        postgres=changes.VERSION_9_POSTGRES,
        sqlite_minimum=5,
    ),
    Migration(version=10, minimum=2, common=changes.VERSION_10, sqlite_minimum=5),
    Migration(version=11, minimum=2, common=levels.VERSION_11, sqlite=levels.VERSION_11_SQLITE, sqlite_minimum=5),
    Migration(version=12, minimum=2, common=outcomes.LAST_OUTCOMES_AND_DAYS, sqlite_minimum=5),
)
VERSION = MIGRATIONS[-1].version
UNFINISHED_COPY_MINIMUM = 1_000_000  # every release rejects it
CREATE_META = "create table if not exists meta (name text primary key, value text not null)"


class SchemaUse(Enum):
    """What to do with the schema of a store that is opened."""

    UPGRADE = auto()  # run the pending migrations
    KEEP = auto()  # only accept a store that needs no migration
    FINISH_COPY = auto()  # as UPGRADE, and accept an unfinished copy


def oldest_release(d: Dialect) -> int:
    """Return the oldest schema version whose release can work with the newest schema."""
    newest = MIGRATIONS[-1]
    return max(newest.minimum, newest.sqlite_minimum if d.name == "sqlite" else 0)


def find_pending(current: int, minimum: int, use: SchemaUse = SchemaUse.UPGRADE) -> list[Migration]:
    """Return the migrations to run on a store of schema ``current``.

    Raises ``StoreBroken`` if the store is too new for this release (its ``minimum`` is above our version), if it is an
    unfinished copy, or if it needs a migration that ``use`` does not allow.
    """
    if minimum == UNFINISHED_COPY_MINIMUM and use is not SchemaUse.FINISH_COPY:
        raise StoreBroken(
            "the store is an unfinished copy; finish it with the same chronos store copy command, or delete it"
        )
    if minimum == UNFINISHED_COPY_MINIMUM:
        minimum = 0
    if current < VERSION and use is SchemaUse.KEEP:
        raise StoreBroken(
            f"the store has schema version {current}, and this release uses {VERSION}; "
            "upgrade it with chronos doctor --store URL, or use the release of its program"
            if current
            else "the store has no tables of Chronos; check the URL"
        )
    if minimum > VERSION:
        raise StoreBroken(
            f"the store has schema version {current}, but this release supports only {VERSION}; "
            "upgrade this node, or restore a backup made before the store was upgraded"
        )
    return [migration for migration in MIGRATIONS if migration.version > current]


def _split_statements(text: str) -> list[str]:
    """Split at lines that end in ``;``. Statements in the body of a trigger are indented and are not split."""
    statements: list[str] = []
    current: list[str] = []
    for line in text.splitlines():
        current.append(line)
        if line.endswith(";") and not line.startswith(" "):
            statements.append("\n".join(current).strip().removesuffix(";"))
            current = []
    if any(current):
        raise ValueError(f"the last statement of a migration has no semicolon: {current[-1]}")
    return [statement for statement in statements if statement]

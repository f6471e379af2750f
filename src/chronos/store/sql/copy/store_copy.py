"""StoreCopy: copies one open store into another, page by page, and verifies the copy by hashes of all rows.

A page is a range of keys. A page that is equal in both stores is left alone, and any other page is replaced. So a copy
that was interrupted is finished by copying again. The target is marked until the copy is verified: no node opens it.

::

    mark the target ─► tables, page by page ─► hash all rows of both ─► remove the mark
"""

from collections.abc import Callable, Sequence
from hashlib import blake2b, sha256

import msgspec

from chronos.errors import Conflict
from chronos.store.sql import migrations
from chronos.store.sql.base_store import SqlStore
from chronos.store.sql.copy.commands import ReplaceRows, SetMeta
from chronos.store.sql.copy.tables import COPIED_TABLES, CopiedTable, Key, take_page
from chronos.store.sql.query import Query, Row, Steps

_SOURCE = "copy_source"  # in ``meta``: the store that an unfinished copy is made of
_MAX_COUNTED = 1_000
#: Tables that must be empty in a new target, and what their rows are called. The others follow from these.
_CONTENTS = {
    "job": "jobs",
    "job_version": "versions of jobs",
    "active": "open executions",
    "history": "ended executions",
    "token": "API tokens",
    "audit": "lines of the audit log",
    "outbox": "outbox items",
    "tombstone": "names of deleted jobs",
    "remains": "deleted jobs",
}
Progress = Callable[[str, int], None]


class StoreCopy:
    """A copy of ``source`` to ``target``. ``source_name`` identifies the source when a copy is resumed."""

    def __init__(self, source: SqlStore, target: SqlStore, *, source_name: str) -> None:
        self._source, self._target = source, target
        self._mark = int.from_bytes(blake2b(source_name.encode(), digest_size=7).digest())

    async def run(self, progress: Progress = lambda _, __: None) -> dict[str, int]:
        """Copy, verify and unmark. Returns the number of rows by table.

        ``progress`` is called with a table and its number of rows so far.

        Raises ``Conflict`` if the target has other contents, or if the source changed during the copy.
        """
        await self._mark_target()
        await self._target.prepare_history(self._find_execution)
        for table in COPIED_TABLES:
            if not table.derived:
                await self._copy_table(table, progress)
        rows = {table.name: await self._verify(table) for table in COPIED_TABLES}
        await self._target.finish_copy()
        minimum = migrations.oldest_release(self._target.dialect)
        await self._target.apply(SetMeta(values=(("schema_minimum", minimum), (_SOURCE, None))))
        return rows

    async def _mark_target(self) -> None:
        meta: dict[str, str] = dict(await self._target.read_steps(_read_meta()))
        if _SOURCE in meta:
            if int(meta[_SOURCE]) != self._mark:
                raise Conflict(
                    "the target is an unfinished copy of another store; finish that copy, or use an empty store"
                )
            return
        if contents := await self._target.read_steps(_read_contents()):
            raise Conflict(f"the target has data already ({', '.join(contents[:3])}); name an empty store")
        minimum = migrations.UNFINISHED_COPY_MINIMUM
        await self._target.apply(SetMeta(values=((_SOURCE, self._mark), ("schema_minimum", minimum))))

    async def _copy_table(self, table: CopiedTable, progress: Progress) -> None:
        after: Key | None = None
        copied = 0
        while True:
            found = await self._source.read_steps(table.read(self._source.dialect, after))
            page = take_page(table, found)
            is_last = len(page) == len(found) < table.page_rows
            until = None if is_last else table.key_of(page[-1])
            await self._copy_page(table, after, until, page)
            copied += len(page)
            progress(table.name, copied)
            if until is None:
                return
            after = until

    async def _copy_page(self, table: CopiedTable, after: Key | None, until: Key | None, rows: Sequence[Row]) -> None:
        present = await self._target.read_steps(table.read(self._target.dialect, after, until))
        if _hash(present) == _hash(rows):
            return
        await self._target.apply(ReplaceRows(table=table, after=after, until=until, rows=tuple(map(tuple, rows))))

    async def _verify(self, table: CopiedTable) -> int:
        """Compare the hashes of all rows of a table. Returns the number of rows."""
        (rows, of_source), (_, of_target) = [await _hash_table(store, table) for store in (self._source, self._target)]
        if of_source != of_target:
            raise Conflict(
                f'the copy of the table "{table.name}" differs, because a store changed during the copy; '
                "stop the programs that use the stores, and run the same command again"
            )
        return rows

    async def _find_execution(self, floor: bytes) -> bytes | None:
        """Return the first ended execution from an id on."""
        rows = await self._source.read_steps(_read_next_execution(floor))
        return None if not rows else bytes(rows[0][0])


async def _hash_table(store: SqlStore, table: CopiedTable) -> tuple[int, bytes]:
    digest, count, after = sha256(), 0, None
    while True:
        page = await store.read_steps(table.read(store.dialect, after))
        for row in page:
            digest.update(_hash([row]))
        count += len(page)
        if len(page) < table.page_rows:
            return count, digest.digest()
        after = table.key_of(page[-1])


def _hash(rows: Sequence[Row]) -> bytes:
    return blake2b(msgspec.msgpack.encode([tuple(row) for row in rows]), digest_size=32).digest()


def _read_meta() -> Steps[list[Row]]:
    return (yield Query("select name, value from meta", standalone=True))


def _read_next_execution(floor: bytes) -> Steps[list[Row]]:
    return (yield Query("select id from history where id >= $1 order by id limit 1", (floor,), standalone=True))


def _read_contents() -> Steps[list[str]]:
    """Return what a store contains, in words."""
    contents = []
    for table, words in _CONTENTS.items():
        [(count,)] = yield Query(f"select count(*) from (select 1 from {table} limit {_MAX_COUNTED}) as t")
        if count:
            contents.append(f"{words}: {'at least ' if count == _MAX_COUNTED else ''}{count:,}")
    return contents

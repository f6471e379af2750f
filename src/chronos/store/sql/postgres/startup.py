"""Checks a PostgreSQL server for version, encoding, durability and rights, and migrates its schema.

The tables are in a schema of their own, so other tables of the database are not touched.
"""

import asyncio
import random
from collections.abc import Mapping

from chronos.errors import StoreBroken, StoreUnavailable
from chronos.store.sql import migrations
from chronos.store.sql.migrations import SchemaUse
from chronos.store.sql.postgres.advisory_locks import EXTENSION_LOCK, AdvisoryLock
from chronos.store.sql.postgres.connection import Connection
from chronos.store.sql.postgres.database_url import ConnectionAddress, DatabaseUrl
from chronos.store.sql.postgres.dialect import PostgresDialect
from chronos.store.sql.postgres.errors import DRIVER_ERRORS, is_transaction_conflict

OLDEST_SERVER_VERSION = 14
_MIGRATION_TIMEOUT_S = 3600.0  # a large store takes long
_MIGRATION_RETRY_PAUSES_S = (0.1, 0.2, 0.5, 1.0, 2.0, 2.0, 2.0)
_DURABILITY_SETTINGS = ("fsync", "synchronous_commit", "full_page_writes")
_FACTS = """
    select name, setting from pg_settings where name = any($1::text[])
    union all select 'encoding', pg_encoding_to_char(encoding) from pg_database where datname = current_database()
    union all select 'standby', pg_is_in_recovery()::text"""


async def check_server(connection: Connection, place: ConnectionAddress, *, allow_unsafe: bool) -> None:
    """Reject a server that is too old, a standby, not UTF-8, or may lose acknowledged commits."""
    facts = dict(await connection.fetch(_FACTS, _DURABILITY_SETTINGS))
    check_server_facts(connection.get_server_version().major, facts, place, allow_unsafe=allow_unsafe)


def check_server_facts(version: int, facts: Mapping[str, str], place: ConnectionAddress, *, allow_unsafe: bool) -> None:
    """Decide for ``check_server``, from the version and the settings of the server.

    Raises ``StoreBroken`` or ``StoreUnavailable``.
    """
    if version < OLDEST_SERVER_VERSION:
        raise StoreBroken(
            f"{place} is version {version}, which is too old; upgrade to PostgreSQL {OLDEST_SERVER_VERSION} or newer"
        )
    if facts["standby"] == "true":
        raise StoreUnavailable(f"{place} is a standby, which is read-only; use the primary in the store URL")
    if facts["encoding"] != "UTF8":
        raise StoreBroken(f"{place} has encoding {facts['encoding']}; create a database with encoding UTF8")
    off = [name for name in _DURABILITY_SETTINGS if facts[name] == "off"]
    if off and not allow_unsafe:
        raise StoreBroken(
            f"{place} has {' and '.join(f'{name} = off' for name in off)}, so a power cut may lose or damage "
            "acknowledged changes; turn it on in postgresql.conf and reload the server"
        )


async def check_rights(connection: Connection, url: DatabaseUrl) -> None:
    """Raise ``StoreBroken`` if the user may not create the schema, or not create and change tables in it."""
    user, database, may_create = await connection.fetchrow(_DATABASE_RIGHTS)
    lacking = f'{url.place}: the user "{user}" lacks a permission'
    rights = await connection.fetchrow(_SCHEMA_RIGHTS, url.schema)
    if rights is None:
        if not may_create:
            raise StoreBroken(
                f'{lacking} to create the schema "{url.schema}"; let an administrator run '
                f'create schema "{url.schema}" authorization "{user}", or grant create on database "{database}" '
                f'to "{user}"'
            )
    elif not all(rights):
        raise StoreBroken(
            f'{lacking} in the schema "{url.schema}"; let an administrator run '
            f'grant usage, create on schema "{url.schema}" to "{user}"'
        )
    elif owner := await connection.fetchval(_SELECT_OTHER_OWNER, url.schema):
        raise StoreBroken(
            f'{lacking}: tables in the schema "{url.schema}" belong to "{owner}"; use that user in the store URL, '
            f'or let an administrator run grant "{owner}" to "{user}"'
        )


async def migrate(
    connection: Connection, url: DatabaseUrl, *, trigrams: bool = True, schema_use: SchemaUse = SchemaUse.UPGRADE
) -> None:
    """Bring the schema up to date. One node at a time does it; the others wait and find it done.

    A node of the previous release may be running. If the two deadlock, the migration is retried.
    """
    for pause_s in _MIGRATION_RETRY_PAUSES_S:
        try:
            await _migrate(connection, url, trigrams, schema_use)
        except DRIVER_ERRORS as error:
            if not is_transaction_conflict(error):
                raise
            await asyncio.sleep(pause_s * random.uniform(0.5, 1))
        else:
            return
    await _migrate(connection, url, trigrams, schema_use)


async def _migrate(connection: Connection, url: DatabaseUrl, trigrams: bool, schema_use: SchemaUse) -> None:
    schema = url.schema
    async with connection.transaction():
        lock = AdvisoryLock.MIGRATION.key(schema)
        await connection.execute(f"select pg_advisory_xact_lock({lock})", timeout=_MIGRATION_TIMEOUT_S)
        if not await connection.fetchval("select 1 from pg_namespace where nspname = $1", schema):
            await connection.execute(f'create schema "{schema}"')
        if not await connection.fetchval(_HAS_TABLE, f'"{schema}".meta'):
            if await connection.fetchval(_ANY_TABLE, schema):
                raise StoreBroken(
                    f'{url.place} has a schema "{schema}" with other tables; name another schema in the store URL '
                    "(?schema=NAME), or use another database"
                )
            await connection.execute(migrations.CREATE_META)
        meta = dict(await connection.fetch("select name, value from meta where name like 'schema%'"))
        pending = migrations.find_pending(int(meta.get("schema", 0)), int(meta.get("schema_minimum", 0)), schema_use)
        for migration in pending:
            for statement in migration.statements(PostgresDialect(schema)):
                await connection.execute(statement, timeout=_MIGRATION_TIMEOUT_S)
            for name, value in (("schema", migration.version), ("schema_minimum", migration.minimum)):
                await connection.execute(_SET_META, name, str(value))
        if trigrams and any(migration.version == 1 for migration in pending):
            await _index_trigrams(connection)


async def _index_trigrams(connection: Connection) -> None:
    """Create an index for substring search if the server allows its extension. Without it, search reads all names."""
    try:
        async with connection.transaction():
            await connection.execute(f"select pg_advisory_xact_lock({EXTENSION_LOCK})")
            await connection.execute("create extension if not exists pg_trgm")
            home = await connection.fetchval(_EXTENSION_SCHEMA)
            await connection.execute(f'create index job_name_trigrams on job using gin (name "{home}".gin_trgm_ops)')
    except DRIVER_ERRORS:
        if connection.is_closed():
            raise


_DATABASE_RIGHTS = """
    select current_user, current_database(), has_database_privilege(current_database(), 'create')"""
_SCHEMA_RIGHTS = """
    select has_schema_privilege(oid, 'usage'), has_schema_privilege(oid, 'create')
    from pg_namespace where nspname = $1"""
_SELECT_OTHER_OWNER = """
    select pg_get_userbyid(c.relowner) from pg_class as c join pg_namespace as n on n.oid = c.relnamespace
    where n.nspname = $1 and c.relkind in ('r', 'p') and not pg_has_role(c.relowner, 'usage')
    and exists (select from pg_class as m where m.relnamespace = n.oid and m.relname = 'meta') limit 1"""
_HAS_TABLE = "select to_regclass($1) is not null"
_ANY_TABLE = """
    select 1 from pg_class as c join pg_namespace as n on n.oid = c.relnamespace where n.nspname = $1 limit 1"""
_SET_META = """
    insert into meta (name, value) values ($1, $2) on conflict (name) do update set value = excluded.value"""
_EXTENSION_SCHEMA = """
    select n.nspname from pg_extension as e join pg_namespace as n on n.oid = e.extnamespace
    where e.extname = 'pg_trgm'"""

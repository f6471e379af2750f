"""Runs a statement in the transaction that is open on a program's own connection to PostgreSQL.

Connections of asyncpg, psycopg 3 and SQLAlchemy (with sessions) are recognized by their classes, so that none of these
packages has to be installed.
"""

import re
from collections.abc import Awaitable, Callable
from importlib import import_module
from typing import Any

from chronos.errors import Invalid
from chronos.store.enqueued_items import Statement

_PLACEHOLDER = re.compile(r"\$(\d+)")
_NO_TRANSACTION = "the connection has no open transaction; begin one, so that the runs are committed with it"
_KNOWN = "use a connection of asyncpg, psycopg 3 or SQLAlchemy"


def run_statement(connection: Any, statement: Statement) -> None:
    """Run a statement on a connection that blocks. Raises ``Invalid``."""
    kind = _find_kind(connection)
    if kind in _ASYNC_RUNNERS:
        raise Invalid("the connection is asynchronous; write: await task.aenqueue(…, connection=connection)")
    _RUNNERS[kind](connection, statement)


async def run_statement_async(connection: Any, statement: Statement) -> None:
    """Run a statement on an asynchronous connection. Raises ``Invalid``."""
    kind = _find_kind(connection)
    if kind in _RUNNERS:
        raise Invalid("the connection blocks the event loop; call task.enqueue(…, connection=connection) in a thread")
    await _ASYNC_RUNNERS[kind](connection, statement)


def _find_kind(connection: Any) -> str:
    """Return the first known class of a connection, as ``package.Class``."""
    for base in type(connection).__mro__:
        kind = f"{base.__module__.partition('.')[0]}.{base.__qualname__}"
        if kind in _RUNNERS or kind in _ASYNC_RUNNERS:
            return kind
    raise Invalid(f"connection is a {type(connection).__name__}, which is not supported; {_KNOWN}")


# --- asyncpg


async def _run_on_asyncpg(connection: Any, statement: Statement) -> None:
    if not connection.is_in_transaction():
        raise Invalid(_NO_TRANSACTION)
    await connection.execute(statement.sql, *statement.args)


# --- psycopg


def _run_on_psycopg(connection: Any, statement: Statement) -> None:
    _check_psycopg(connection)
    connection.execute(*_to_psycopg(statement))


async def _run_on_async_psycopg(connection: Any, statement: Statement) -> None:
    _check_psycopg(connection)
    await connection.execute(*_to_psycopg(statement))


def _check_psycopg(connection: Any) -> None:
    """Raise ``Invalid`` if the statement would be committed at once."""
    if connection.autocommit and connection.info.transaction_status.name == "IDLE":
        raise Invalid(_NO_TRANSACTION)


def _to_psycopg(statement: Statement) -> tuple[str, dict[str, str | int]]:
    return _PLACEHOLDER.sub(r"%(a\1)s", statement.sql), _name_arguments(statement)


# --- SQLAlchemy


def _run_on_sqlalchemy(connection: Any, statement: Statement) -> None:
    _check_sqlalchemy(connection)
    connection.execute(*_to_sqlalchemy(statement))


async def _run_on_async_sqlalchemy(connection: Any, statement: Statement) -> None:
    _check_sqlalchemy(connection)
    await connection.execute(*_to_sqlalchemy(statement))


def _check_sqlalchemy(connection: Any) -> None:
    """Raise ``Invalid`` for another database. SQLAlchemy begins a transaction by itself."""
    dialect = connection.get_bind().dialect if hasattr(connection, "get_bind") else connection.dialect
    if dialect.name != "postgresql":
        raise Invalid(f"the connection is to {dialect.name}; use a connection to the PostgreSQL of the store")


def _to_sqlalchemy(statement: Statement) -> tuple[Any, dict[str, str | int]]:
    text = import_module("sqlalchemy").text  # installed, because the connection is one of SQLAlchemy
    return text(_PLACEHOLDER.sub(r":a\1", statement.sql)), _name_arguments(statement)


def _name_arguments(statement: Statement) -> dict[str, str | int]:
    return {f"a{number}": value for number, value in enumerate(statement.args, start=1)}


_RUNNERS: dict[str, Callable[[Any, Statement], None]] = {
    "psycopg.Connection": _run_on_psycopg,
    "sqlalchemy.Connection": _run_on_sqlalchemy,
    "sqlalchemy.Session": _run_on_sqlalchemy,
    "sqlalchemy.scoped_session": _run_on_sqlalchemy,
}
_ASYNC_RUNNERS: dict[str, Callable[[Any, Statement], Awaitable[None]]] = {
    "asyncpg.Connection": _run_on_asyncpg,
    "asyncpg.PoolConnectionProxy": _run_on_asyncpg,
    "psycopg.AsyncConnection": _run_on_async_psycopg,
    "sqlalchemy.AsyncConnection": _run_on_async_sqlalchemy,
    "sqlalchemy.AsyncSession": _run_on_async_sqlalchemy,
}

"""``chronos store``: work with whole stores."""

import sys

import click

from chronos.cli.output import emit, note

_NOUNS = {"job": "jobs", "history": "ended executions", "token": "API tokens"}


@click.group(short_help="Copy a store.")
def store() -> None:
    """Work with whole stores.

    \b
    Example:
      chronos store copy sqlite:///chronos-data/chronos.db postgresql://chronos@db.example/chronos
    """


@store.command(short_help="Copy a store to another one.")
@click.argument("source", metavar="SOURCE")
@click.argument("target", metavar="TARGET")
def copy(source: str, target: str) -> None:
    """Copy everything in the store SOURCE to the empty store TARGET: jobs, versions, history, tokens and the rest.

    Both are store URLs, of SQLite or PostgreSQL. Stop every server and program that uses them first. If the copy is
    interrupted, run the same command again: it goes on where it stopped. At the end all rows of both stores are
    compared by their hashes. Until then, no server can open TARGET. SOURCE is only read.

    \b
    Examples:
      chronos store copy sqlite:///chronos-data/chronos.db postgresql://chronos@db.example/chronos
      chronos store copy postgresql://chronos@db.example/chronos sqlite:///copy.db
    """
    import asyncio

    from chronos.assembly import hide_url_password
    from chronos.clock import SystemClock
    from chronos.server.store_copy import copy_store

    rows = asyncio.run(copy_store(source, target, SystemClock(), progress=_show_progress))
    if _is_terminal():
        click.echo("\r\033[K", nl=False, err=True)
    main = ", ".join(f"{noun}: {rows[table]:,}" for table, noun in _NOUNS.items())
    emit(f"copied {sum(rows.values()):,} rows to {hide_url_password(target)} ({main})")
    note("all rows of both stores have the same hashes")


def _show_progress(table: str, rows: int) -> None:
    if _is_terminal():
        click.echo(f"\r\033[K{table}: {rows:,} rows", nl=False, err=True)


def _is_terminal() -> bool:
    return sys.stderr is not None and sys.stderr.isatty()

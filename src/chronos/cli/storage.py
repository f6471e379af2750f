"""``chronos backup`` and ``chronos restore``: a copy of the store in one file, and back."""

from pathlib import Path

import click

from chronos.cli.config import config_option
from chronos.cli.output import emit

_FILE = click.Path(dir_okay=False, path_type=Path)


@click.command(short_help="Copy the store to a file.")
@click.argument("file", type=_FILE)
@click.option("--store", metavar="URL", help="The store.  [default: the configuration's]")
@config_option
def backup(file: Path, store: str | None, config: Path | None) -> None:
    """Copy the store to FILE, whole and consistent, while servers go on working.

    \b
    Examples:
      chronos backup jobs.backup
      chronos backup jobs.backup --store sqlite:///chronos-data/chronos.db
    """
    import asyncio

    from chronos.server.storage import back_up

    asyncio.run(back_up(_store(store, config), file))
    emit(f"{file} holds the store now, {file.stat().st_size:,} bytes")


@click.command(short_help="Make a backup the store again.")
@click.argument("file", type=_FILE)
@click.option("--store", metavar="URL", help="Where it goes; must be free.  [default: the configuration's store]")
@config_option
def restore(file: Path, store: str | None, config: Path | None) -> None:
    """Make the backup in FILE a store again, under a name that is free.

    What it holds is checked first. Stop servers that use the store before you put another in its place.

    \b
    Examples:
      chronos restore jobs.backup
      chronos restore jobs.backup --store sqlite:///restored.db
    """
    from chronos.assembly import restore_store

    url = _store(store, config)
    start = "chronos server" if store is None else f"chronos server --store {store}"
    if store is None and config is not None:
        start += f" --config {config}"
    emit(f"{restore_store(file, url)} is a store again; start a server on it: {start}")


def _store(store: str | None, config: Path | None) -> str:
    """The store that ``--store`` names, or else the configuration."""
    import os

    from chronos.server.config import load

    return str(load(config, os.environ, {"store": store})["store"])

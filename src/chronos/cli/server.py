"""``chronos server``, ``doctor``, ``backup`` and ``restore``: run a server and maintain its store."""

import os
import sys
from pathlib import Path
from typing import Any

import click

from chronos.cli.config import config_option
from chronos.cli.output import emit, note

_FILE = click.Path(dir_okay=False, path_type=Path)


@click.command(short_help="Run a server in the foreground.")
@config_option
@click.option("--store", metavar="URL", help="The store, such as sqlite:///jobs.db or postgresql://…")
@click.option("--listen", metavar="HOST:PORT", help="The address of the API.  [default: 127.0.0.1:8080]")
@click.option("--node-id", metavar="ID", help="The name of this node.  [default: the host name]")
@click.option("--no-scheduler", is_flag=True, help="Only run work that other nodes schedule.")
@click.option("--no-worker", is_flag=True, help="Only schedule work; other nodes run it.")
def server(
    config: Path | None,
    store: str | None,
    listen: str | None,
    node_id: str | None,
    no_scheduler: bool,
    no_worker: bool,
) -> int:
    """Run a server: the scheduler, a worker and the API, in the foreground.

    By default it listens on 127.0.0.1:8080 and stores its data in ./chronos-data. Several servers on one PostgreSQL
    database share the work. The first SIGTERM (or Ctrl-C) lets running work finish within the grace period; the second
    one stops it at once.

    With --no-scheduler and --no-worker it only serves the API of an existing store, to look into the store of a
    program. It can only read a SQLite store while the program runs.

    \b
    Examples:
      chronos server
      chronos server --listen 127.0.0.1:9090 --store sqlite:///jobs.db
      chronos server --config chronos.yaml --store postgresql://chronos@db.example/chronos
      chronos server --store sqlite:///app.db --no-scheduler --no-worker
    """
    from chronos.server.config import read_config
    from chronos.server.process import serve
    from chronos.server.process_secrets import hide_credentials
    from chronos.server.wiring import Roles

    flags: dict[str, Any] = {"store": store, "server.listen": listen, "node.id": node_id}
    loaded = read_config(config, os.environ, flags)
    hide_credentials()
    tell = note if loaded["logging.output"] == "stdout" else announce  # keep the banner out of the log lines
    return serve(loaded, announce=tell, roles=Roles(schedules=not no_scheduler, works=not no_worker))


def announce(text: str) -> None:
    """Print the start message of a server at once, even into a pipe."""
    emit(text)
    if sys.stdout is not None:
        sys.stdout.flush()


@click.command(short_help="Check that a server can run here.")
@config_option
@click.option("--store", metavar="URL", help="The store.  [default: store in the configuration]")
def doctor(config: Path | None, store: str | None) -> int:
    """Check the configuration, the store and its jobs, the clock, the disk, permissions and the port.

    It opens the store, and so upgrades the tables of an older release: on SQLite, stop the processes that use the file
    first. If a server already listens on the port, check that it is ready. Each check is one line, and a problem says
    what to do. The exit code is 1 if there is a problem.

    \b
    Examples:
      chronos doctor
      chronos doctor --store sqlite:///jobs.db
    """
    import asyncio

    from chronos.clock import SystemClock
    from chronos.server.doctor import run_checks

    findings = asyncio.run(run_checks(config, os.environ, SystemClock(), store=store))
    for finding in findings:
        emit(f"{'✓' if finding.ok else '✗'} {finding.subject}: {finding.text}")
    return 0 if all(finding.ok for finding in findings) else 1


@click.command(short_help="Copy the store to a file.")
@click.argument("file", type=_FILE)
@click.option("--store", metavar="URL", help="The store.  [default: store in the configuration]")
@config_option
def backup(file: Path, store: str | None, config: Path | None) -> None:
    """Copy the whole store to FILE. The copy is consistent; servers may keep running.

    \b
    Examples:
      chronos backup jobs.backup
      chronos backup jobs.backup --store sqlite:///chronos-data/chronos.db
    """
    import asyncio

    from chronos.server.backup import back_up

    asyncio.run(back_up(_store(store, config), file))
    emit(f"copied the store to {file}, {file.stat().st_size:,} bytes")


@click.command(short_help="Restore a backup.")
@click.argument("file", type=_FILE)
@click.option("--store", metavar="URL", help="The new store; must not exist.  [default: store in the configuration]")
@config_option
def restore(file: Path, store: str | None, config: Path | None) -> None:
    """Restore the backup in FILE to a store that does not exist yet.

    The backup is checked first. Stop the servers that use a store before you replace it.

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
    emit(f"restored to {restore_store(file, url)}; start a server on it: {start}")


def _store(store: str | None, config: Path | None) -> str:
    """Return the URL of the store: ``--store``, or else from the configuration."""
    from chronos.server.config import load_config

    return str(load_config(config, os.environ, {"store": store})["store"])

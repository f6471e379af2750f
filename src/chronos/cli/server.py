"""``chronos server``, ``doctor``, ``backup`` and ``restore``: a server in the foreground, and its store."""

import os
import sys
from pathlib import Path
from typing import Any

import click

from chronos.cli.config import config_option
from chronos.cli.output import emit, note

_FILE = click.Path(dir_okay=False, path_type=Path)


@click.command(short_help="Run a server until it is told to stop.")
@config_option
@click.option("--store", metavar="URL", help="Where jobs are kept, such as sqlite:///jobs.db or postgresql://…")
@click.option("--listen", metavar="HOST:PORT", help="The address of the API.  [default: 127.0.0.1:8080]")
@click.option("--node-id", metavar="ID", help="This node's name.  [default: the host's]")
@click.option("--no-scheduler", is_flag=True, help="Only work on what other nodes admit.")
@click.option("--no-worker", is_flag=True, help="Only admit what is due; other nodes work on it.")
def server(
    config: Path | None,
    store: str | None,
    listen: str | None,
    node_id: str | None,
    no_scheduler: bool,
    no_worker: bool,
) -> int:
    """Run a server: the scheduler, a worker and the API, in the foreground.

    Without anything said, it listens on 127.0.0.1:8080 and keeps its data in ./chronos-data. Several servers on one
    PostgreSQL database share the work. The first SIGTERM (or Ctrl-C) lets running work finish within the grace
    period; the second one does not wait.

    \b
    Examples:
      chronos server
      chronos server --listen 127.0.0.1:9090 --store sqlite:///jobs.db
      chronos server --config chronos.yaml --store postgresql://chronos@db.example/chronos
    """
    if no_scheduler and no_worker:
        raise click.UsageError("--no-scheduler and --no-worker together leave nothing to do.")
    from chronos.server.config import read_config
    from chronos.server.process import serve
    from chronos.server.process_secrets import hide_credentials
    from chronos.server.wiring import Roles

    flags: dict[str, Any] = {"store": store, "server.listen": listen, "node.id": node_id}
    loaded = read_config(config, os.environ, flags)
    hide_credentials()
    announce = note if loaded["logging.output"] == "stdout" else _announce  # among log lines it would be none
    return serve(loaded, announce=announce, roles=Roles(schedules=not no_scheduler, works=not no_worker))


def _announce(text: str) -> None:
    emit(text)
    if sys.stdout is not None:
        sys.stdout.flush()


@click.command(short_help="Check what a server needs.")
@config_option
@click.option("--store", metavar="URL", help="The store.  [default: the configuration's]")
def doctor(config: Path | None, store: str | None) -> int:
    """Check the configuration, the store and its books, the clock, the disk, permissions and the port.

    A server that runs there already is asked whether it is ready.

    Each check is one line; what is wrong says what to do. The exit code is 1 when something is.

    \b
    Examples:
      chronos doctor
      chronos doctor --store sqlite:///jobs.db
    """
    import asyncio

    from chronos.clock import SystemClock
    from chronos.server.doctor import examine

    findings = asyncio.run(examine(config, os.environ, SystemClock(), store=store))
    for finding in findings:
        emit(f"{'✓' if finding.ok else '✗'} {finding.subject}: {finding.text}")
    return 0 if all(finding.ok for finding in findings) else 1


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

    from chronos.server.backup import back_up

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
    from chronos.server.config import load_config

    return str(load_config(config, os.environ, {"store": store})["store"])

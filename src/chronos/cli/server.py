"""``chronos server``: the server, in the foreground."""

from pathlib import Path
from typing import Any

import click

from chronos.cli.config import config_option
from chronos.cli.output import emit, note


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
    import os

    from chronos.server.config import read_config
    from chronos.server.parts import Roles
    from chronos.server.process import serve
    from chronos.server.secrecy import keep_secrets

    flags: dict[str, Any] = {"store": store, "server.listen": listen, "node.id": node_id}
    loaded = read_config(config, os.environ, flags)
    keep_secrets()
    announce = note if loaded["logging.output"] == "stdout" else _announce  # among log lines it would be none
    return serve(loaded, announce=announce, roles=Roles(schedules=not no_scheduler, works=not no_worker))


def _announce(text: str) -> None:
    import sys

    emit(text)
    if sys.stdout is not None:
        sys.stdout.flush()

"""``chronos demo``: a server with invented jobs and 30 days of history, for a first look."""

from pathlib import Path
from tempfile import TemporaryDirectory

import click

from chronos.cli.output import note
from chronos.cli.server import announce


@click.command(short_help="Run a server with invented jobs and history.")
@click.option("--listen", metavar="HOST:PORT", help="The address of the server.  [default: 127.0.0.1:8080]")
def demo(listen: str | None) -> int:
    """Run a server with about 40 invented jobs and 30 days of history, until Ctrl-C.

    Nothing is sent or executed for the invented jobs; the jobs that you create really run. All data is in a temporary
    folder and is deleted at the end.

    \b
    Examples:
      chronos demo
      chronos demo --listen 127.0.0.1:9090
    """
    from chronos.clock import SystemClock
    from chronos.demo.history import wrap_runners, write_history
    from chronos.server.config import read_config
    from chronos.server.process import serve

    clock = SystemClock()
    start_us = clock.now_us()
    with TemporaryDirectory(prefix="chronos-demo-") as folder:
        file, settings = Path(folder) / "demo.db", Path(folder) / "chronos.yaml"
        settings.touch()  # empty: the demo is the same in every folder
        flags = {"store": f"sqlite:///{file}", "server.listen": listen, "node.id": "node-a"}
        config = read_config(settings, {}, flags)
        note("inventing 30 days of history …")
        write_history(file, start_us)
        return serve(
            config,
            announce=announce,
            clock=clock,
            replace_runners=lambda runners: wrap_runners(runners, clock=clock, start_us=start_us),
        )

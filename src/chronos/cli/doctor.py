"""``chronos doctor``: can a server live here?"""

from pathlib import Path

import click

from chronos.cli.config import config_option
from chronos.cli.output import emit


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
    import os

    from chronos.clock import SystemClock
    from chronos.server.doctor import examine

    findings = asyncio.run(examine(config, os.environ, SystemClock(), store=store))
    for finding in findings:
        emit(f"{'✓' if finding.well else '✗'} {finding.what}: {finding.text}")
    return 0 if all(finding.well for finding in findings) else 1

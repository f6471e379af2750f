"""A program with a declarative scheduler that a test kills. One callback never ends, the other ends at once."""

import asyncio
import sys
from datetime import timedelta

from chronos.declarative import Scheduler


async def main(url: str, cron: str) -> None:
    async def forever() -> None:
        sys.stdout.write("started\n")
        sys.stdout.flush()
        await asyncio.sleep(3_600)

    async def done() -> None:
        sys.stdout.write("done\n")
        sys.stdout.flush()

    tasks = [("stuck", cron, forever, timedelta(hours=1)), ("done", cron, done, timedelta(hours=1))]
    await Scheduler(url, timezone="UTC").initialize(tasks)
    await asyncio.sleep(3_600)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))

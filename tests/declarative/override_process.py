"""A program that overrides all its tasks in a loop. A test kills it while it does so."""

import asyncio
import sys
from datetime import timedelta

from chronos.declarative import Scheduler

TASKS = 200


async def work() -> None:
    """Never called: the 29th of February is far away."""


async def main(url: str, generation: int) -> None:
    while True:
        generation += 1
        names = [f"task {number}" for number in range(TASKS)] + [f"only {generation}"]
        scheduler = Scheduler(url, timezone="UTC")
        await scheduler.initialize([(name, "0 0 29 2 *", work, timedelta(seconds=generation)) for name in names])
        sys.stdout.write(f"{generation}\n")
        sys.stdout.flush()
        await scheduler.stop()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))

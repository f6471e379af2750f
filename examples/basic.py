"""Functions that run on a schedule. Run it with `python examples/basic.py`; it ends by itself after two ticks."""

import threading

from chronos import Chronos, Context

app = Chronos("sqlite://")  # in memory; sqlite:///app.db keeps everything
ticks: list[str] = []
enough = threading.Event()


@app.job(every="200ms", overlap="skip", timeout="10s")
def tick(ctx: Context) -> int:
    ticks.append(ctx.scheduled_at.isoformat())
    if len(ticks) == 2:
        enough.set()
    return len(ticks)


@app.job(cron="0 9 * * 1-5", timezone="Europe/Paris", retries=3)
def digest() -> str:
    return "sent"


def main() -> None:
    with app:  # a program that only runs jobs calls app.run() instead
        enough.wait(timeout=30)
        run = digest.trigger()  # now, in addition to its schedule
        print("ticks at", *ticks[:2])
        print("digest:", run.result(timeout=30), "- next at", digest.next_run)


if __name__ == "__main__":
    main()

"""Recovery: when a program starts again, each job decides what to do about the instants it missed."""

import time
from pathlib import Path
from tempfile import TemporaryDirectory

from chronos import Chronos, Context


def make_app(url: str, seen: list[str]) -> Chronos:
    app = Chronos(url)

    @app.job(every="100ms", recovery={"strategy": "compressed", "after": "1s"})
    def one_for_all(ctx: Context) -> None:
        if ctx.span is not None:
            seen.append(f"one run for {ctx.span.count} missed instants")

    @app.job(every="100ms", recovery={"strategy": "bounded", "max_count": 3, "after": "1s"}, overlap="queue")
    def the_last_three() -> None:
        pass

    return app


def main() -> None:
    seen: list[str] = []
    recovered: list[object] = []
    with TemporaryDirectory() as folder:
        url = f"sqlite:///{Path(folder) / 'jobs.db'}"
        with make_app(url, seen):
            time.sleep(0.3)
        time.sleep(1.5)  # the program is down
        with make_app(url, seen) as app:
            while not seen or len(recovered) < 3:
                time.sleep(0.05)
                records = app.get("the_last_three").executions(limit=100)
                recovered = [record for record in records if getattr(record, "trigger", "") == "recovery"]
    missed = sum(getattr(record, "count", 0) for record in records)
    print(*seen)
    print(f"{len(recovered)} recovered, {missed} recorded as missed")


if __name__ == "__main__":
    main()

"""Durable waits: they use no thread and survive restarts. The program stops while its jobs wait for a signal."""

import time
from pathlib import Path
from tempfile import TemporaryDirectory

from chronos import Chronos, Context


def make_app(url: str) -> Chronos:
    app = Chronos(url)
    release = app.group("release", mode="sequential")

    @release.task
    def build() -> str:
        return "1.2.0"

    release.wait("approval", signal="approved", timeout="1d")

    @release.task
    def publish() -> str:
        return "published"

    @app.job
    async def order(ctx: Context) -> str:
        number = await ctx.step("reserve", lambda: 42)  # done once, however often the function runs again
        await ctx.sleep("100ms")
        by = await ctx.wait_for_signal("paid", timeout="24h")
        return f"order {number} paid by {by}"

    return app


def main() -> None:
    with TemporaryDirectory() as folder:
        url = f"sqlite:///{Path(folder) / 'jobs.db'}"
        with make_app(url) as app:
            runs = [app.trigger("release"), app.trigger("order")]
            while (asleep := [run.status for run in runs]) != ["waiting", "waiting"]:
                time.sleep(0.01)
            print("asleep:", *asleep)
        with make_app(url) as app:
            release, order = (app.get_run(run.id) for run in runs)
            release.signal("approved", {"by": "ana"})
            while not order.signal("paid", "bo"):  # False while it still sleeps
                time.sleep(0.01)
            print("release:", release.wait(timeout=30).status)
            print(order.result(timeout=30))


if __name__ == "__main__":
    main()

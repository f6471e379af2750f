"""A graph of tasks: each starts when the tasks it needs have ended, and a failed clean-up does not fail the job."""

from chronos import Chronos

app = Chronos("sqlite://")
etl = app.group("etl", cron="0 2 * * *", timezone="Europe/Paris", mode="graph", retries=2, timeout="10m")
order: list[str] = []


@etl.task
def extract() -> None:
    order.append("extract")


@etl.task(needs=[extract], timeout="1h")
def load_eu() -> None:
    order.append("load_eu")


@etl.task(needs=[extract])
def load_us() -> None:
    order.append("load_us")


@etl.task(needs=[load_eu, load_us], on_failure="continue")
def tidy() -> None:
    order.append("tidy")


def main() -> None:
    with app:
        run = etl.trigger().wait(timeout=30)
        print(run.status, "in the order", " ".join(order))


if __name__ == "__main__":
    main()

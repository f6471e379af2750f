"""One job with tasks that run in parallel. One may fail without stopping the others."""

from chronos import Chronos

app = Chronos("sqlite://")
shops = app.group("refresh-shops", mode="parallel", on_failure="continue", retries=0)


@shops.task
def paris() -> int:
    return 120


@shops.task
def tokyo() -> int:
    return 80


@shops.task
def atlantis() -> int:
    raise ConnectionError("no such place")


def main() -> None:
    with app:
        run = shops.trigger().wait(timeout=30)
        print(run.status)
        for task in run.tasks:
            print(f"  {task.name}: {task.status}", task.error or task.result)


if __name__ == "__main__":
    main()

"""Celery's first steps and the guide of beat, ported statement by statement."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from chronos import Chronos, RunFailed
from tests.support.ports import PortedProgram, Statement, noop, runs_of, schedule_of

PROGRAM = PortedProgram("celery-beat.md")
works, refused = PROGRAM.works, PROGRAM.refused
CRONTAB = "the same fields, in the order minute, hour, day of the month, month, weekday"


def tasks(**options: Any) -> Chronos:
    return Chronos("sqlite://", **options)


def add(x: int, y: int) -> int:
    return x + y


# --- first steps


@works("app = Celery('tasks', broker='pyamqp://guest@localhost//')", "one store: SQLite, or PostgreSQL")
def has_a_store() -> None:
    assert tasks().all_jobs() == []


@works("@app.task def add(x, y): return x + y", "| `@app.task` | `@app.task` |")
def declares_a_task() -> None:
    assert tasks().task(add)(4, 4) == 8


@works("celery -A tasks worker --loglevel=INFO", "`app.run()`")
def works_on_tasks() -> None:
    app = tasks()
    task = app.task(add)
    with app:
        assert task.enqueue(4, 4).result(timeout=30) == 8


@works("add.delay(4, 4)", "`add.enqueue(4, 4)`")
def calls_a_task() -> None:
    run = tasks().task(add).enqueue(4, 4)
    assert run.info().payload == {"x": 4, "y": 4}


@works("result.ready()", "`run.status`")
def asks_for_the_state() -> None:
    assert tasks().task(add).enqueue(4, 4).status == "ready"


@works("result.get(timeout=1)", "`run.result(timeout=10)`")
def gets_the_result() -> None:
    app = tasks()
    task = app.task(add)
    with app:
        assert task.enqueue(x=4, y=5).result(timeout=30) == 9


@works("result.get(propagate=False); result.traceback", "`run.wait().message`")
def gets_the_error() -> None:
    app = tasks(defaults={"retries": 0})

    @app.task
    def bad() -> None:
        raise ValueError("no luck")

    with app:
        run = bad.enqueue()
        assert "no luck" in (run.wait(30).message or "")
        assert "ValueError" in run.log
        with pytest.raises(RunFailed):
            run.result(timeout=30)


@works("add.apply_async((2, 2), queue='lopri', countdown=10)", '`add.enqueue(2, 2, delay="1h")`')
def delays_a_call() -> None:
    task = tasks().task(queue="lopri")(add)
    run = task.enqueue(2, 2, delay=10).info()
    assert (run.status, task.info().settings["queue"]) == ("waiting", "lopri")


@works("add.apply_async((2, 2), expires=60)", "`expires=`")
def lets_a_call_expire() -> None:
    app = tasks()
    task = app.task(add)
    run = task.enqueue(2, 2, expires=timedelta(microseconds=1000))
    with app:
        assert run.wait(30).reason == "expired"


# --- periodic tasks


@works("app.conf.timezone = 'Europe/London'", '`Chronos(url, timezone="Europe/London")`')
def has_a_zone() -> None:
    assert schedule_of({"cron": "0 9 * * *"}, tz="Europe/London") == ["Fri 01 09:00:00"]


@works("sender.add_periodic_task(10.0, test.s('hello'), name='add every 10')", '`name="add-every-10"`')
def names_an_entry() -> None:
    app = tasks()
    app.job(name="add-every-10", description="add every 10", every=10.0, payload={"x": 1, "y": 2})(add)
    assert runs_of(app, "add-every-10", "20 seconds") == ["Fri 01 00:00:10", "Fri 01 00:00:20"]


@refused("sender.add_periodic_task(30.0, test.s('world'), expires=10)", "`expires` of an entry")
def refuses_expires_of_an_entry() -> None:
    with pytest.raises(Exception, match="expires"):
        tasks().job(every=30.0, expires=10)(noop)  # type: ignore[call-overload]


@works("sender.add_periodic_task(crontab(hour=7, minute=30, day_of_week=1), test.s('Happy Mondays!'))", CRONTAB)
def runs_on_mondays() -> None:
    assert schedule_of({"cron": "30 7 * * 1"}, "7 days") == ["Mon 04 07:30:00"]


@works("'schedule': 30.0, 'args': (16, 16)", '`payload={"x": 16, "y": 16}`')
def has_arguments() -> None:
    app = tasks()
    app.job(name="add-16", every=30.0, payload={"x": 16, "y": 16})(add)
    assert len(runs_of(app, "add-16", "1 minute")) == 2


@works("'schedule': timedelta(seconds=30)", "`every=timedelta(minutes=5)`")
def takes_a_timedelta() -> None:
    assert len(schedule_of({"every": timedelta(seconds=30)}, "1 minute")) == 2


@works("'task': 'tasks.add'", '`app.python("add-16", add, …)`')
def names_a_function() -> None:
    app = tasks()
    app.python("add-16", add, every=30.0, payload={"x": 16, "y": 16})
    assert len(runs_of(app, "add-16", "1 minute")) == 2


def crontab(original: str, expression: str, by: str, count: int, first: str) -> None:
    """Add a crontab: the same fields as one expression."""

    @works(original, CRONTAB)
    def runs() -> None:
        found = schedule_of({"cron": expression}, by)
        assert (len(found), found[0]) == (count, first)


crontab("crontab()", "* * * * *", "10 minutes", 10, "Fri 01 00:01:00")
crontab("crontab(minute=0, hour=0)", "0 0 * * *", "3 days", 3, "Sat 02 00:00:00")
crontab("crontab(minute=0, hour='*/3')", "0 */3 * * *", "1 day", 8, "Fri 01 03:00:00")
crontab("crontab(minute=0, hour='0,3,6,9,12,15,18,21')", "0 0,3,6,9,12,15,18,21 * * *", "1 day", 8, "Fri 01 03:00:00")
crontab("crontab(minute='*/15')", "*/15 * * * *", "1 hour", 4, "Fri 01 00:15:00")
crontab("crontab(day_of_week='sunday')", "* * * * sunday", "2 days 2 minutes", 3, "Sun 03 00:00:00")
crontab(
    "crontab(minute='*/10', hour='3,17,22', day_of_week='thu,fri')",
    *("*/10 3,17,22 * * thu,fri", "1 day", 18, "Fri 01 03:00:00"),
)
crontab("crontab(minute=0, hour='*/2,*/3')", "0 */2,*/3 * * *", "1 day", 16, "Fri 01 02:00:00")
crontab("crontab(minute=0, hour='*/3,8-17')", "0 */3,8-17 * * *", "1 day", 15, "Fri 01 03:00:00")
crontab("crontab(0, 0, day_of_month='1-7,15-21')", "0 0 1-7,15-21 * *", "25 days", 13, "Sat 02 00:00:00")
crontab("crontab(0, 0, month_of_year='*/3')", "0 0 * */3 *", "40 days", 30, "Sat 02 00:00:00")


class Sunset:
    """A schedule of the user: every day at half past five."""

    def next_after(self, instant: datetime) -> datetime:
        today = instant.replace(hour=17, minute=30, second=0, microsecond=0)
        return today if today > instant else today + timedelta(days=1)


@works("'schedule': solar('sunset', -37.81753, 144.96715)", "an object of yours with `next_after`")
def runs_at_sunset() -> None:
    assert schedule_of({"schedule": Sunset()}, "2 days") == ["Fri 01 17:30:00", "Sat 02 17:30:00"]


@pytest.mark.parametrize("statement", PROGRAM.statements, ids=lambda statement: statement.original)
def test_statement(statement: Statement) -> None:
    statement.check()


def test_every_change_is_documented() -> None:
    assert PROGRAM.undocumented == []
    assert len(PROGRAM.statements) == 28

"""The README and the examples of ``schedule``, ported statement by statement."""

from concurrent.futures import Future
from datetime import UTC, datetime, time, timedelta
from threading import Event as ThreadEvent
from typing import Any

import pytest

from chronos import Chronos, Context, RunEnded
from tests.support.ports import PortedProgram, Statement, count_at_once, noop, runs_of, schedule_of

PROGRAM = PortedProgram("schedule.md")
works = PROGRAM.works
MIDNIGHT = datetime(2027, 1, 1, tzinfo=UTC)  # when the runs of ``schedule_of`` begin


def in_memory(**options: Any) -> Chronos:
    return Chronos("sqlite://", **options)


# --- README


@works("schedule.every(10).seconds.do(job)", '`every="10s"`')
def every_ten_seconds() -> None:
    assert schedule_of({"every": "10s"}, "25 seconds") == ["Fri 01 00:00:10", "Fri 01 00:00:20"]


@works("schedule.every(10).minutes.do(job)", "every 10 minutes from the start")
def every_ten_minutes() -> None:
    runs = schedule_of({"words": "every 10 minutes from the start"}, "25 minutes")
    assert runs == schedule_of({"every": "10m"}, "25 minutes") == ["Fri 01 00:10:00", "Fri 01 00:20:00"]


@works("schedule.every().hour.do(job)", '`every="1h"`')
def every_hour() -> None:
    assert schedule_of({"every": "1h"}, "2 hours") == ["Fri 01 01:00:00", "Fri 01 02:00:00"]


@works('schedule.every().day.at("10:30").do(job)', '`words="every day at 10:30"`')
def every_day_at_a_time() -> None:
    assert schedule_of({"words": "every day at 10:30"}, "2 days") == ["Fri 01 10:30:00", "Sat 02 10:30:00"]


@works("schedule.every(5).to(10).minutes.do(job)", '`every="5m to 10m"`')
def at_random_intervals() -> None:
    assert 6 <= len(schedule_of({"every": "5m to 10m"}, "1 hour")) <= 12
    assert schedule_of({"words": "every 5 to 10 minutes"}, "1 hour") == schedule_of({"every": "5m to 10m"}, "1 hour")


@works("schedule.every().monday.do(job)", '`words="every Monday"`')
def every_monday() -> None:
    assert schedule_of({"words": "every Monday"}, "8 days") == ["Mon 04 00:00:00"]


@works('schedule.every().wednesday.at("13:15").do(job)', '`words="every Wednesday at 13:15"`')
def every_wednesday_at_a_time() -> None:
    assert schedule_of({"words": "every Wednesday at 13:15"}, "8 days") == ["Wed 06 13:15:00"]


@works('schedule.every().day.at("12:42", "Europe/Amsterdam").do(job)', '`timezone="Europe/Amsterdam"`')
def every_day_in_a_zone() -> None:
    runs = schedule_of({"words": "every day at 12:42", "timezone": "Europe/Amsterdam"})
    assert runs == schedule_of({"words": "every day at 12:42 in Amsterdam"}) == ["Fri 01 11:42:00"]


@works('schedule.every().minute.at(":17").do(job)', '`words="every minute at second 17"`')
def every_minute_at_a_second() -> None:
    runs = schedule_of({"words": "every minute at second 17"}, "2 minutes")
    assert runs == ["Fri 01 00:00:17", "Fri 01 00:01:17"]


@works('schedule.every(10).seconds.do(job_with_argument, name="Peter")', '`payload={"name": "Peter"}`')
def passes_an_argument() -> None:
    app = in_memory()

    @app.job(every="10s", payload={"name": "Peter"})
    def greet(name: str) -> str:
        return f"I am {name}"

    with app:
        assert greet.trigger().result(timeout=30) == "I am Peter"


@works("while True: schedule.run_pending(); time.sleep(1)", "`app.run()`, or `app.start()`")
def runs_without_a_loop() -> None:
    app, ran = in_memory(), ThreadEvent()
    app.job(name="tick", every="100ms")(ran.set)
    app.start()
    assert ran.wait(30)
    app.stop()


# --- run a job every x minutes


@works("schedule.every(3).hours.do(job)", '`every="3h"`')
def every_three_hours() -> None:
    assert schedule_of({"every": "3h"}, "7 hours") == ["Fri 01 03:00:00", "Fri 01 06:00:00"]


@works("schedule.every(3).days.do(job)", '`every="3d"`')
def every_three_days() -> None:
    assert schedule_of({"every": "3d"}, "7 days") == ["Mon 04 00:00:00", "Thu 07 00:00:00"]


@works("schedule.every(3).weeks.do(job)", '`words="every 3 weeks"`')
def every_three_weeks() -> None:
    assert len(schedule_of({"words": "every 3 weeks"}, "43 days")) == 2


@works("schedule.every(3).weeks.do(job), on Mondays", '`words="every 3 weeks on Monday"`')
def every_three_weeks_on_monday() -> None:
    assert schedule_of({"words": "every 3 weeks on Monday"}, "30 days") == ["Mon 04 00:00:00", "Mon 25 00:00:00"]


@works('schedule.every(2).days.at("10:30").do(job)', '`words="every 2 days at 10:30"`')
def every_two_days_at_a_time() -> None:
    assert schedule_of({"words": "every 2 days at 10:30"}, "3 days") == ["Fri 01 10:30:00", "Sun 03 10:30:00"]


@works('schedule.every().hour.at(":42").do(job)', '`words="every hour at minute 42"`')
def every_hour_at_a_minute() -> None:
    assert schedule_of({"words": "every hour at minute 42"}, "2 hours") == ["Fri 01 00:42:00", "Fri 01 01:42:00"]


@works('schedule.every().day.at("10:30:42").do(job)', '`words="every day at 10:30:42"`')
def every_day_at_a_second() -> None:
    assert schedule_of({"words": "every day at 10:30:42"}) == ["Fri 01 10:30:42"]


@works("@repeat(every(10).minutes)", '`@app.job(every="10m")`')
def decorates_a_function() -> None:
    app = in_memory()

    @app.job(every="10m")
    def job() -> None: ...

    assert runs_of(app, "job", "15 minutes") == ["Fri 01 00:10:00"]


@works('@repeat(every().second, "World")', "a payload has names, not positions")
def decorates_a_function_with_an_argument() -> None:
    app = in_memory()

    @app.job(every="1s", payload={"planet": "World"})
    def hello(planet: str) -> str:
        return planet

    assert runs_of(app, "hello", "1 second") == ["Fri 01 00:00:01"]


@works("schedule.every().second.do(greet, 'Alice'); schedule.every(4).seconds.do(greet, 'Bob')", "a name for each")
def schedules_a_function_twice() -> None:
    app = in_memory()

    def greet(name: str) -> str:
        return name

    app.job(name="greet-a", every="1s", payload={"name": "Alice"})(greet)
    app.job(name="greet-b", every="4s", payload={"name": "Bob"})(greet)
    assert (len(runs_of(app, "greet-a", "4 seconds")), len(runs_of(app, "greet-b", "4 seconds"))) == (4, 1)


# --- cancel, list and tag


@works("schedule.cancel_job(job)", "`job.delete()`")
def cancels_a_job() -> None:
    app = in_memory()
    app.job(every="1d")(noop).delete()
    assert app.all_jobs() == []


@works("return schedule.CancelJob", "`app.get(ctx.job).disable()`")
def cancels_itself() -> None:
    app = in_memory()

    @app.job(every="100ms")
    def once(ctx: Context) -> None:
        app.get(ctx.job).disable()

    ended: Future[None] = Future()
    app.on("success", lambda event: ended.set_result(None))
    with app:
        ended.result(30)
        assert once.info().state == "disabled"


@works("schedule.get_jobs()", "`app.all_jobs()`")
def lists_jobs() -> None:
    app = in_memory()
    app.job(name="a", every="1d")(noop)
    assert [job.name for job in app.all_jobs()] == ["a"]


@works("schedule.clear()", "`for info in app.all_jobs(): app.get(info.name).delete()`")
def clears() -> None:
    app = in_memory()
    app.job(name="a", every="1d")(noop)
    for info in app.all_jobs():
        app.get(info.name).delete()
    assert app.all_jobs() == []


@works("schedule.every().day.do(greet, 'Andrea').tag('daily-tasks', 'friend')", '`tags=["friends", "daily"]`')
def tags() -> None:
    info = in_memory().job(every="1d", tags=["daily-tasks", "friend"])(noop).info()
    assert info.tags == {"daily-tasks": "", "friend": ""}


@works("friends = schedule.get_jobs('friend')", '`app.all_jobs(tag="friends")`')
def filters_by_tag() -> None:
    app = in_memory()
    app.job(name="a", every="1d", tags=["friend"])(noop)
    app.job(name="b", every="1d")(noop)
    assert [job.name for job in app.all_jobs(tag="friend")] == ["a"]


@works("schedule.clear('daily-tasks')", 'the same for `app.all_jobs(tag="daily")`')
def clears_a_tag() -> None:
    app = in_memory()
    app.job(name="a", every="1d", tags=["daily"])(noop)
    app.job(name="b", every="1d")(noop)
    for info in app.all_jobs(tag="daily"):
        app.get(info.name).delete()
    assert [job.name for job in app.all_jobs()] == ["b"]


# --- until


@works('schedule.every(1).hours.until("18:30").do(job)', "`end=datetime.combine(")
def until_a_time() -> None:
    end = datetime.combine(MIDNIGHT.date(), time(3, 30), tzinfo=UTC)
    assert schedule_of({"every": "1h", "end": end})[-1] == "Fri 01 03:00:00"


@works('schedule.every(1).hours.until("2030-01-01 18:33").do(job)', '`end="2030-01-01 18:33"`')
def until_a_date() -> None:
    assert schedule_of({"every": "1h", "end": "2027-01-01 03:33"})[-1] == "Fri 01 03:00:00"


@works("schedule.every(1).hours.until(timedelta(hours=8)).do(job)", "`end=timedelta(hours=8)`")
def until_a_duration() -> None:
    assert len(schedule_of({"every": "1h", "end": timedelta(hours=8)})) == 8


@works("schedule.every(1).hours.until(time(11, 33, 42)).do(job)", "a time needs its day")
def until_a_time_object() -> None:
    end = datetime.combine(MIDNIGHT.date(), time(2, 33, 42), tzinfo=UTC)
    assert len(schedule_of({"every": "1h", "end": end})) == 2


# --- the rest


@works("n = schedule.idle_seconds()", "the smallest `next_run`")
def knows_the_next_run() -> None:
    app = in_memory()
    app.job(name="a", every="5s")(noop)
    app.job(name="b", every="1h")(noop)
    next_run = min(info.next_run for info in app.all_jobs() if info.next_run is not None)
    assert next_run - datetime.now(UTC) < timedelta(seconds=6)


@works("schedule.run_all()", "`for job in app.scheduled_jobs(): job.trigger()`")
def runs_everything() -> None:
    app = in_memory()
    for name in ("a", "b"):
        app.job(name=name, every="1d")(noop)
    with app:
        runs = [job.trigger() for job in app.scheduled_jobs()]
        assert [run.wait(30).status for run in runs] == ["succeeded", "succeeded"]


@works("schedule.run_all(delay_seconds=10)", "`job.trigger(in_=10 * number)`")
def runs_everything_with_delays() -> None:
    app = in_memory()
    for name in ("a", "b"):
        app.job(name=name, every="1d")(noop)
    runs = [job.trigger(in_=10 * number).info() for number, job in enumerate(app.scheduled_jobs(), 1)]
    assert [run.status for run in runs] == ["waiting", "waiting"]


@works("@catch_exceptions(cancel_on_failure=True)", '`app.on("failure", callback)`')
def cancels_on_failure() -> None:
    app = in_memory(defaults={"retries": 0})
    disabled: Future[str] = Future()

    @app.on("failure")
    def cancel(event: RunEnded) -> None:
        app.get(event.job).disable()
        disabled.set_result(event.job)

    @app.job(every="100ms")
    def bad() -> None:
        raise ValueError

    with app:
        assert disabled.result(30) == "bad"
        assert bad.info().state == "disabled"


@works("threading.Thread(target=job_func).start()", "jobs do not wait for each other")
def runs_in_parallel() -> None:
    assert count_at_once(in_memory(), 5, overlap="allow") == 5


@works("scheduler1, scheduler2 = schedule.Scheduler(), schedule.Scheduler()", "a second `Chronos(url)`")
def has_two_schedulers() -> None:
    first, second = in_memory(), in_memory()
    first.job(name="a", every="1d")(noop)
    assert ([job.name for job in first.all_jobs()], list(second.all_jobs())) == (["a"], [])


@pytest.mark.parametrize("statement", PROGRAM.statements, ids=lambda statement: statement.original)
def test_statement(statement: Statement) -> None:
    statement.check()


def test_every_change_is_documented() -> None:
    assert PROGRAM.undocumented == []
    assert len(PROGRAM.statements) == 38

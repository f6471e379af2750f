"""APScheduler's user guide, ported statement by statement."""

import logging
import os
import re
from concurrent.futures import Future
from datetime import UTC, datetime
from logging.handlers import QueueHandler
from pathlib import Path
from queue import SimpleQueue
from tempfile import TemporaryDirectory
from threading import Event as ThreadEvent
from typing import Any

import pytest

from chronos import Chronos, Invalid, RunEnded
from chronos.testing import Harness
from tests.support.ports import PortedProgram, Statement, count_at_once, noop, run_program, runs_of, schedule_of

PROGRAM = PortedProgram("apscheduler.md")
works, refused = PROGRAM.works, PROGRAM.refused


def in_memory(**options: Any) -> Chronos:
    return Chronos("sqlite://", **options)


# --- the scheduler


@works("scheduler = BackgroundScheduler(); scheduler.start()", "`app.start()`")
def starts_in_the_background() -> None:
    app, ran = in_memory(), ThreadEvent()
    app.job(name="tick", every="100ms")(ran.set)
    app.start()
    assert ran.wait(30)
    app.stop()


@works("BlockingScheduler().start()", "`app.run()`")
def blocks() -> None:
    source = """
        import os, signal
        from chronos import Chronos

        app = Chronos("sqlite://")

        @app.job(every="100ms")
        def tick():
            print("ticked", flush=True)
            os.kill(os.getpid(), signal.SIGTERM)

        app.run()
        print("ended")
    """
    with TemporaryDirectory() as folder:
        lines = run_program(source, Path(folder)).splitlines()
    assert (lines[0], lines[-1]) == ("ticked", "ended")


@works("jobstores = {'default': SQLAlchemyJobStore(url='sqlite:///jobs.sqlite')}", "the URL of the app")
def keeps_jobs() -> None:
    with TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/jobs.db"
        first, second = Chronos(url), Chronos(url)
        first.job(name="kept", every="2m")(noop).info()
        first.stop()
        assert [job.name for job in second.all_jobs()] == ["kept"]
        second.stop()


@works("executors = {'default': ThreadPoolExecutor(20)}", "`slots=`")
def limits_its_slots() -> None:
    assert count_at_once(in_memory(slots=20), 25, overlap="allow") == 20


@works("executors = {'processpool': ProcessPoolExecutor(5)}", '`isolation="process"`')
def runs_in_processes() -> None:
    app = in_memory()
    job = app.job(name="pid", isolation="process")(process_id)
    with app:
        assert job.trigger().result(timeout=60) != os.getpid()


def process_id() -> int:
    return os.getpid()


@works("job_defaults = {'coalesce': False, 'max_instances': 3}", '`overlap="allow", concurrency=3`')
def has_defaults() -> None:
    app = in_memory(defaults={"recovery": "all", "overlap": "allow", "concurrency": 3})
    assert count_at_once(app, 5) == 3


@works("BackgroundScheduler(timezone=utc)", "`timezone=`")
def has_a_zone() -> None:
    assert in_memory(timezone="Europe/Paris").job(cron="0 9 * * *")(noop).info().timezone == "Europe/Paris"


# --- jobs


@works("job = scheduler.add_job(myfunc, 'interval', minutes=2)", '`every="5m"`')
def adds_an_interval() -> None:
    assert schedule_of({"every": "2m"}, "5 minutes") == ["Fri 01 00:02:00", "Fri 01 00:04:00"]


@works("scheduler.add_job(myfunc, 'interval', minutes=2, id='my_job_id')", "`name=`")
def names_a_job() -> None:
    assert in_memory().job(name="my_job_id", every="2m")(noop).name == "my_job_id"


@works("@sched.scheduled_job('interval', id='my_job_id', hours=2)", '`@app.job(every="2h")`')
def decorates_a_function() -> None:
    app = in_memory()

    @app.job(every="2h")
    def my_job() -> None: ...

    assert runs_of(app, "my_job", "4 hours") == ["Fri 01 02:00:00", "Fri 01 04:00:00"]


@works("job.remove()", "`poll.delete()`")
def removes_a_job() -> None:
    app = in_memory()
    app.job(every="2m")(noop).delete()
    assert app.all_jobs() == []


@works("scheduler.remove_job('my_job_id')", '`app.get("my_job_id")`')
def removes_a_job_by_name() -> None:
    app = in_memory()
    app.job(name="my_job_id", every="2m")(noop)
    app.get("my_job_id").delete()
    assert app.all_jobs() == []


@works("job.pause(); job.resume()", "`poll.pause()`, `poll.resume()`")
def pauses_and_resumes() -> None:
    job = in_memory().job(every="2m")(noop)
    job.pause()
    assert job.is_paused
    job.resume()
    assert not job.is_paused


@works("scheduler.get_jobs()", "`app.scheduled_jobs()`")
def lists_jobs() -> None:
    app = in_memory()
    app.job(name="a", every="2m")(noop)
    assert [job.name for job in app.scheduled_jobs()] == [job.name for job in app.all_jobs()] == ["a"]


@works("job.modify(max_instances=6, name='Alternate name')", "`poll.update(every=")
def modifies_a_job() -> None:
    changed = in_memory().job(every="2m")(noop).update(overlap="allow", concurrency=6, description="Alternate name")
    assert (changed.settings["concurrency"], changed.description) == ({"limit": 6}, "Alternate name")


@works("scheduler.reschedule_job('my_job_id', trigger='cron', minute='*/5')", "`modify_job`, `reschedule_job`")
def reschedules_by_name() -> None:
    app = in_memory()
    app.job(name="my_job_id", every="2m")(noop)
    assert app.get("my_job_id").update(cron="*/5 * * * *").schedule == "*/5 * * * *"


@works("job.reschedule(trigger='interval', minutes=5)", "`modify_job`, `reschedule_job`")
def reschedules_a_job() -> None:
    assert in_memory().job(every="2m")(noop).update(every="5m").schedule == "@every 5m"


# --- the life of the scheduler


@works("scheduler.shutdown()", "`app.stop()`")
def shuts_down() -> None:
    app = in_memory()
    started, done = ThreadEvent(), Future[int]()

    def work() -> None:
        started.set()
        done.set_result(1)

    job = app.job(work)
    app.start()
    job.trigger()
    assert started.wait(30)
    app.stop()
    assert done.result(0) == 1


@works("scheduler.shutdown(wait=False)", "`app.stop(grace=0)`")
def shuts_down_at_once() -> None:
    app = in_memory()
    app.start()
    app.stop(grace=0)


@works("scheduler.pause()", "`app.pause()`, `app.resume()`")
def pauses_everything() -> None:
    app = in_memory()
    app.job(name="a", every="2m")(noop)
    app.job(name="b", every="2m")(noop)
    app.pause()
    assert [job.state for job in app.all_jobs()] == ["paused", "paused"]


@works("scheduler.resume()", "`app.pause()`, `app.resume()`")
def resumes_everything() -> None:
    app = in_memory()
    app.job(name="a", every="2m")(noop)
    app.pause()
    app.resume()
    assert [job.state for job in app.all_jobs()] == ["active"]


@works("scheduler.add_job(f, misfire_grace_time=3600, coalesce=True)", "`misfire_grace_time=3600`")
def runs_late_within_the_grace_time() -> None:
    app = in_memory()
    recovery = {"strategy": "bounded", "max_count": 1, "max_age": "1h"}
    app.job(name="job", every="30m", recovery=recovery)(noop)
    harness = Harness()
    harness.load(app)
    harness.clock.set("2027-01-01T00:00")
    harness.advance("40 minutes")
    harness.clock.jump("5 hours")
    runs = harness.advance("1 second")["job"]
    harness.close()
    assert [(run.recovered, run.scheduled_at.hour) for run in runs] == [(True, 5)]


@works("scheduler.add_listener(my_listener, EVENT_JOB_EXECUTED | EVENT_JOB_ERROR)", "`add_listener(callback, EVENT")
def listens() -> None:
    app = in_memory(defaults={"retries": 0})
    ended: Future[str] = Future()

    @app.on("failure")
    def listen(event: RunEnded) -> None:
        ended.set_result(event.job)

    @app.job
    def bad() -> None:
        raise ValueError

    with app:
        bad.trigger()
        assert ended.result(30) == "bad"


@works("logging.getLogger('apscheduler').setLevel(logging.DEBUG)", '`logging.getLogger("chronos")`')
def logs() -> None:
    app, lines = in_memory(defaults={"retries": 0}), SimpleQueue[logging.LogRecord]()
    handler, logger = QueueHandler(lines), logging.getLogger("chronos")

    @app.job
    def bad() -> None:
        raise ValueError

    logger.addHandler(handler)
    try:
        with app:
            bad.trigger().wait(30)
            assert lines.get(timeout=30).name.startswith("chronos")
    finally:
        logger.removeHandler(handler)


# --- triggers


@works("sched.add_job(my_job, 'date', run_date=datetime(2009, 11, 6, 16, 30, 5))", "a naive datetime")
def runs_once_at_a_date() -> None:
    app = in_memory()
    with pytest.raises(Invalid, match=re.escape("has no time zone; add one, such as tzinfo=UTC")):
        app.job(name="naive", at=datetime(2027, 11, 6, 16, 30, 5))(noop)
    assert schedule_of({"at": datetime(2027, 1, 1, 16, 30, 5, tzinfo=UTC)}) == ["Fri 01 16:30:05"]
    assert schedule_of({"at": "2027-01-01 16:30:05"}, tz="Europe/Paris") == ["Fri 01 16:30:05"]


@works("sched.add_job(lambda: tick('x'), 'interval', seconds=10)", "a lambda")
def runs_a_lambda() -> None:
    app = in_memory()
    with pytest.raises(Invalid, match="choose one with name="):
        app.job(every="10s")(lambda: None)
    app.job(every="10s", name="tick")(lambda: None)
    assert runs_of(app, "tick", "10 seconds") == ["Fri 01 00:00:10"]


@refused("sched.add_job(print, 'interval', seconds=10, args=['x'], executor='processpool')", "a builtin in a process")
def refuses_a_builtin_in_a_process() -> None:
    with pytest.raises(Invalid, match=re.escape("which another process cannot import; use a function")):
        in_memory().job(name="say", every="10s", isolation="process")(print)


@works("sched.add_job(f, 'cron', month='6-8,11-12', day='3rd fri', hour='0-3')", "`FRI#3`")
def runs_on_the_third_friday() -> None:
    runs = schedule_of({"cron": "0 0-3 * 6-8,11-12 FRI#3"}, "170 days")
    assert runs == [f"Fri 18 0{hour}:00:00" for hour in range(4)]


@works(
    "sched.add_job(f, 'cron', day_of_week='mon-fri', hour=5, minute=30, end_date='2014-05-30')", '`end="2027-05-30"`'
)
def ends_at_a_date() -> None:
    runs = schedule_of({"cron": "30 5 * * mon-fri", "end": "2027-01-05"}, "10 days")
    assert runs == ["Fri 01 05:30:00", "Mon 04 05:30:00"]


@pytest.mark.parametrize("statement", PROGRAM.statements, ids=lambda statement: statement.original)
def test_statement(statement: Statement) -> None:
    statement.check()


def test_every_change_is_documented() -> None:
    assert PROGRAM.undocumented == []
    assert len(PROGRAM.statements) == 29

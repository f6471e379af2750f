"""The jobs of a store as an app sees them: filters, functions instead of names, and pausing all at once."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from chronos import Chronos, Invalid, NotFound
from chronos.sdk.home_loop import WrongLoop
from tests.support.cli_server import serving


@pytest.fixture(params=["store", "server"])
def app(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Chronos]:
    if request.param == "store":
        app = Chronos(f"sqlite:///{tmp_path / 'jobs.db'}")
        yield app
        app.stop(grace=0)
        return
    with serving() as served:
        app = Chronos(served.url)
        yield app
        app.stop()


def add(a: int, b: int = 2) -> int:
    return a + b


def plain() -> str:
    return "done"


def names(app: Chronos, **filters: Any) -> list[str]:
    return [job.name for job in app.all_jobs(**filters)]


def test_jobs_are_listed_by_tag_and_state(app: Chronos) -> None:
    app.job(name="one", tags={"team": "billing", "night": ""})(plain)
    app.job(name="two", tags={"team": "billing"})(plain)
    app.job(name="three", tags=["night"])(plain).pause()
    assert names(app) == ["one", "three", "two"]
    assert names(app, tag="team") == names(app, tag="team=billing") == ["one", "two"]
    assert names(app, tag=["night", "team=billing"]) == ["one"]
    assert names(app, state="paused") == ["three"]
    assert names(app, tag="team", state="paused") == []
    with pytest.raises(Invalid, match='invalid state "asleep"; use one of active, paused, disabled, done'):
        names(app, state="asleep")
    with pytest.raises(Invalid, match="tag is 7"):
        names(app, tag=7)


def test_an_app_pauses_its_own_jobs_and_resumes_what_it_paused(app: Chronos) -> None:
    one = app.job(name="one", every="1h")(plain)
    two = app.job(name="two", every="1h")(plain)
    two.pause("by hand")
    assert app.pause("the database moves") == [one]
    assert (one.info().state, one.info().note) == ("paused", "app paused: the database moves")
    assert app.pause() == []
    assert app.resume() == [one]
    assert (one.is_paused, two.is_paused, two.info().note) == (False, True, "by hand")
    one.delete()
    assert app.pause() == app.resume() == []


def test_a_function_is_accepted_wherever_a_name_is(app: Chronos) -> None:
    job = app.job(plain)
    assert app.get(plain) is app.get(job) is app.get("plain") is job
    assert app.trigger(plain).id
    follower = app.webhook("follower", "https://example.com", after={"job": plain, "on": "failure"})
    assert follower.info().definition["after"] == [{"job": "plain", "on": "failure"}]
    app.python("add-small", add, every="1h", payload={"a": 1})
    app.python("add-big", add, payload={"a": 100})
    app.python("plain-too", job)
    targets = {info.name: info.tasks[0]["python"]["name"] for info in app.all_jobs() if info.name != "follower"}
    assert targets == {"plain": "plain", "add-small": "add", "add-big": "add", "plain-too": "plain"}
    etl = app.group("etl")
    etl.task(name="first")(plain)
    etl.task(needs=plain)(add)
    assert etl.info().tasks[1]["needs"] == ["first"]


def test_a_function_that_is_no_job_is_refused(app: Chronos) -> None:
    with pytest.raises(Invalid, match=r"test_stored_jobs\.add is not a job of this program; make it one"):
        app.trigger(add)
    app.job(name="one")(plain)
    app.job(name="two")(plain)
    with pytest.raises(Invalid, match="plain is several jobs: one, two; use the name of one of them"):
        app.get(plain)
    with pytest.raises(Invalid, match="job x: 7 is neither a function nor the name of one"):
        app.python("x", 7)  # type: ignore[arg-type]
    with pytest.raises(Invalid, match=r"task etl\.b: .*add is not a task of this group"):
        app.group("etl").command("b", ["true"], needs=add)


def test_one_function_runs_on_two_schedules(tmp_path: Path) -> None:
    app = Chronos(f"sqlite:///{tmp_path / 'jobs.db'}")
    hourly = app.job(name="add-hourly", every="1h", payload={"a": 1})(add)
    daily = app.job(name="add-daily", cron="@daily", payload={"a": 10})(add)
    with app:
        assert [job.trigger().result(timeout=30) for job in (hourly, daily)] == [3, 12]


@dataclass
class Order:
    id: int


def bill(order: Order) -> int:
    return order.id


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"every": "1s"},
            'the parameter "a" has no value when the job runs by itself; give it a default, or add payload',
        ),
        ({"after": "other"}, 'the parameter "a" has no value'),
        ({"every": "1s", "payload": ["Peter"]}, 'the payload of "add" is an array; send a JSON object'),
        ({"every": "1s", "payload": {"b": 1}}, 'the payload of "add" lacks "a"'),
        ({"payload": {"a": 1, "c": 1}}, 'the payload of "add" has "c"'),
    ],
)
def test_a_payload_that_does_not_fit_is_an_error_where_it_is_declared(options: dict[str, Any], message: str) -> None:
    app = Chronos("sqlite://")
    with pytest.raises(Invalid, match=rf"test_stored_jobs\.add: {message}"):
        app.job(**options)(add)
    assert app.scheduled_jobs() == []
    app.job(add)  # without a schedule, a trigger gives the payload


def test_a_task_without_its_parameters_is_an_error_where_it_is_declared() -> None:
    app = Chronos("sqlite://")
    etl = app.group("etl", every="1h")
    with pytest.raises(Invalid, match='the parameter "a" has no value'):
        etl.task(add)
    etl.task(payload={"a": 1})(add)
    with pytest.raises(Invalid, match='job x: the parameter "a" has no value'):
        app.python("x", add, every="1h")


def test_a_declared_payload_may_have_typed_values(tmp_path: Path) -> None:
    app = Chronos(f"sqlite:///{tmp_path / 'jobs.db'}")
    job = app.job(every="1h", payload={"order": Order(7)})(bill)
    assert job.info().payload == {"order": {"id": 7}}
    with app:
        assert job.trigger().result(timeout=30) == 7
    with pytest.raises(Invalid, match="order"):
        app.job(name="wrong", every="1h", payload={"order": {"id": "x"}})(bill)


def test_errors_name_the_method_that_was_called(app: Chronos) -> None:
    job = app.job(plain)
    task = app.task(name="task")(add)
    with pytest.raises(TypeError, match=r"^plain\.trigger\(…\) got an unexpected keyword argument 'x'"):
        job.trigger(x=1)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"^app\.all_jobs\(…\) got an unexpected keyword argument 'x'"):
        app.all_jobs(x=1)  # type: ignore[call-arg]

    async def call_on_the_loop() -> None:
        async with app:
            with pytest.raises(WrongLoop, match=r"await task\.aenqueue\(…\)"):
                task.enqueue(1)
            with pytest.raises(WrongLoop, match=r"await task\.aenqueue_many\(…\)"):
                task.enqueue_many([{"a": 1}])

    asyncio.run(call_on_the_loop())


def test_unknown_jobs_are_not_found(app: Chronos) -> None:
    with pytest.raises(NotFound, match="nothing"):
        app.trigger("nothing")

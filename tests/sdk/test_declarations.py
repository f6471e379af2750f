"""Declarations are checked at once, and become the same jobs as job shapes."""

import inspect
from datetime import UTC, datetime, timedelta
from typing import Any, get_type_hints

import pytest

from chronos import Chronos, ChronosError, Conflict, Context, Invalid
from chronos.core.config import Delivery, Mode, OnFailure, Overlap
from chronos.core.job import JobSpec, JobState, UpstreamCondition
from chronos.sdk.equivalent_keywords import EQUIVALENT_KEYWORDS
from chronos.sdk.job_options import FunctionJobOptions


def plain() -> None: ...


def get_spec(app: Chronos, name: str) -> JobSpec:
    return app._runtime.declared.jobs[name].spec


def test_a_decorated_function_behaves_as_before() -> None:
    app = Chronos("sqlite://")

    @app.job(cron="0 9 * * *", payload={"a": 1})
    def add(a: int, b: int = 2) -> int:
        """Adds."""
        return a + b

    @app.job
    async def double(a: int) -> int:
        return 2 * a

    assert add(1, b=3) == 4
    assert add.function(1) == 3
    assert (add.name, add.__name__, add.__doc__) == ("add", "add", "Adds.")
    assert str(inspect.signature(add)) == "(a: int, b: int = 2) -> int"
    coroutine = double(4)
    assert inspect.iscoroutine(coroutine)
    coroutine.close()
    assert [job.name for job in app.scheduled_jobs()] == ["add", "double"]


def test_one_function_may_be_several_jobs() -> None:
    app = Chronos("sqlite://")

    @app.job(name="nightly", cron="0 2 * * *")
    @app.job
    async def sync() -> str:
        return "done"

    group = app.group("group", on_complete=sync)
    group.task(sync)
    functions = app._runtime.functions
    assert functions.names == {"nightly", "sync", "group.sync", "group.on_complete"}
    assert all(function is not None and function.is_async for function in map(functions.get, functions.names))
    assert sync.name == "nightly"


def test_keywords_become_a_job_definition() -> None:
    app = Chronos("sqlite://", timezone="Europe/Paris", owner="billing")
    app.job(
        cron="0 9 * * 1-5",
        jitter=timedelta(seconds=30),
        exclude=["2027-12-25", datetime(2027, 12, 26, tzinfo=UTC).date()],
        start=datetime(2027, 1, 1, tzinfo=UTC),
        retries=3,
        retry={"initial_interval": "5s"},
        timeout=90,
        execution_timeout="1h",
        overlap="queue",
        delivery="at_most_once",
        recovery="all",
        priority=7,
        concurrency=2,
        update={"policy": "windowed", "count": 2},
        retention={"max_count": 5},
        queue="reports",
        placement={"labels": {"region": "eu"}},
        tags=["money"],
        description="Bills",
        payload={"a": 1},
        on_failure="continue",
        on_start=plain,
        on_complete={"http": {"url": "https://hooks.example/done"}},
        name="bill",
    )(plain)
    spec, schedule = get_spec(app, "bill"), get_spec(app, "bill").schedule
    assert schedule is not None
    assert (schedule.text, schedule.timezone, schedule.jitter_us) == ("0 9 * * 1-5", "Europe/Paris", 30_000_000)
    assert schedule.exclude == ("2027-12-25", "2027-12-26")
    settings = spec.settings
    assert settings.retry is not None
    assert (settings.retry.max_attempts, settings.retry.initial_us) == (4, 5_000_000)
    assert (settings.task_timeout_us, settings.execution_timeout_us) == (90_000_000, 3_600_000_000)
    assert (settings.overlap, settings.delivery) == (Overlap.QUEUE, Delivery.AT_MOST_ONCE)
    assert (settings.priority, settings.queue, settings.on_failure) == (7, "reports", OnFailure.CONTINUE)
    assert (spec.owner, spec.tags, spec.payload) == ("billing", {"money": ""}, {"a": 1})
    assert spec.on_start is not None
    assert spec.on_start.options == {"name": "bill.on_start"}
    assert spec.on_complete is not None
    assert spec.on_complete.kind == "http"
    assert app._runtime.functions.names == {"bill", "bill.on_start"}


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"every": "90s"}, "@every 1m30s"),
        ({"every": 2}, "@every 2s"),
        ({"every": timedelta(hours=1)}, "@every 1h"),
        ({"at": datetime(2099, 1, 1, tzinfo=UTC)}, "2099-01-01T00:00:00+00:00"),
        ({"in_": "24h"}, "in 24 hours"),
        ({"iso8601": "R5/2027-01-01T00:00:00Z/PT6H"}, "R5/2027-01-01T00:00:00Z/PT6H"),
        ({"words": "every weekday at 9am"}, "every weekday at 9am"),
        ({"schedule": "@daily"}, "@daily"),
        ({"schedule": {"cron": "0 9 * * *"}}, "0 9 * * *"),
    ],
)
def test_every_kind_of_schedule_keyword(options: dict[str, Any], text: str) -> None:
    app = Chronos("sqlite://")
    app.job(**options)(plain)
    schedule = get_spec(app, "plain").schedule
    assert schedule is not None
    assert schedule.text == text


def test_without_a_schedule_it_runs_when_it_is_asked() -> None:
    app = Chronos("sqlite://")
    first = app.job(plain)
    app.job(name="second", after=first)(plain)
    app.job(name="third", after=["second", {"job": "plain", "on": "failure"}])(plain)
    assert get_spec(app, "plain").schedule is None
    assert not app._runtime.declared.jobs["plain"].runs_on_creation
    assert [(one.job, one.on) for one in get_spec(app, "third").after] == [
        ("second", UpstreamCondition.SUCCESS),
        ("plain", UpstreamCondition.FAILURE),
    ]


def test_groups_and_their_tasks() -> None:
    app = Chronos("sqlite://")
    etl = app.group("etl", cron="0 2 * * *", retries=3, timeout="10m")

    @etl.task
    def extract() -> None: ...

    @etl.task(needs=[extract], timeout="1h", payload={"rows": 1})
    def load(rows: int) -> int:
        return rows

    call = etl.webhook("tell", "https://api.example/done", json={"ok": True}, needs=[load])
    etl.command("sync", ["rsync", "-a", "x", "y"], needs=["load"])
    etl.wait("approval", signal="ok", timeout="1d", needs=[call])

    assert load(3) == 3
    spec = get_spec(app, "etl")
    assert spec.settings.mode is Mode.GRAPH  # what needs something makes it one
    assert [(task.name, task.target.kind, task.needs) for task in spec.tasks] == [
        ("extract", "python", ()),
        ("load", "python", ("extract",)),
        ("tell", "http", ("load",)),
        ("sync", "command", ("load",)),
        ("approval", "wait", ("tell",)),
    ]
    assert spec.tasks[0].target.options == {"name": "etl.extract"}
    assert spec.tasks[1].settings.task_timeout_us == 3_600_000_000
    assert spec.tasks[4].target.options == {"signal": "ok", "timeout": "24h"}


def test_disabled_from_the_start() -> None:
    app = Chronos("sqlite://")
    app.command("backup", ["pg_dump"], cron="@daily", enabled=False)
    assert app._runtime.declared.jobs["backup"].state is JobState.DISABLED


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        ({"cron": "0 25 * * *"}, ["plain: cron:", 'field "hour" is 25', "0 25 * * *\n"]),
        ({"cron": "@daily", "every": "1s"}, ["cron and every are given, and a job has one schedule; use one of them"]),
        ({"every": "1ms"}, ["plain: every:", "100ms"]),
        ({"timezone": "Europe/Paris"}, ["timezone needs a schedule"]),
        ({"cron": "@daily", "timezone": "Europe/Pariss"}, ["timezone:", "Europe/Pariss"]),
        ({"at": datetime(2027, 1, 1)}, ["at is 2027-01-01", "tzinfo=UTC"]),
        ({"timeout": "soon"}, ["plain: timeout:", "soon"]),
        ({"timeout": True}, ["timeout is True"]),
        ({"retries": -1}, ["retries is -1"]),
        ({"retries": 1, "retry": {"max_attempts": 2}}, ["retries and retry['max_attempts'] set the same thing"]),
        ({"priority": 11}, ["plain: priority:", "11"]),
        ({"overlap": "never"}, ["plain: overlap:", "never"]),
        ({"corn": "@daily"}, ['unknown keyword "corn"; did you mean cron?']),
        ({"isolation": "fiber"}, ["isolation", "fiber"]),
        ({"limits": {"cpu_s": 1}}, ['isolation="process"']),
        ({"on_start": 3}, ["on_start is 3"]),
        ({"after": 3}, ["3 is neither"]),
        ({"name": "no spaces please"}, ["name:", "no spaces please"]),
        ({"payload": object()}, ["payload:", "is a object, which is not JSON"]),
        ({"payload": {"items": {1, 2}}}, ["payload.items: is a set, which is not JSON; use a list"]),
        ({"at": "yesterday"}, ["at:", 'try "tomorrow at 9am", "in 2 hours" or "2027-01-01T09:00:00Z"']),
        ({"every": -1}, ["every is -1", "not negative"]),
        ({"every": float("nan")}, ["every is nan"]),
        ({"timeout": float("inf")}, ["timeout is inf"]),
        ({"cron": "@daily", "exclude": "2027-12-25"}, ["exclude is '2027-12-25'", "use a list"]),
        ({"cron": "@daily", "exclude": [5]}, ["exclude has 5"]),
        ({"retry": 5}, ["retry is 5", "max_attempts"]),
        ({"retry": {"initial_interval": -1}}, ["retry['initial_interval'] is -1"]),
        ({"concurrency": "x"}, ["concurrency:", "allowed"]),
        ({"isolation": 5}, ["isolation is 5", "process"]),
    ],
)
def test_a_wrong_keyword_is_refused_at_its_declaration(options: dict[str, Any], parts: list[str]) -> None:
    app = Chronos("sqlite://")
    with pytest.raises(Invalid) as caught:
        app.job(**options)(plain)
    assert str(caught.value).startswith(f"{__name__}.plain: ")
    for part in parts:
        assert part in str(caught.value)
    assert app.scheduled_jobs() == []
    app.job(plain)  # the refused declaration left nothing behind


@pytest.mark.parametrize(
    ("keyword", "hint"),
    [
        ("max_instances", 'use concurrency=N with overlap="allow"'),
        ("coalesce", 'use recovery="last"'),
        ("misfire_grace_time", 'use recovery={"strategy": "skip", "after": "30s"}'),
        ("replace_existing", "leave it out: a job of the same name is always updated"),
        ("id", 'use name="…"'),
        ("seconds", 'use every="5m"'),
        ("florp", "the Python reference lists the keywords"),
    ],
)
def test_keywords_of_other_schedulers_are_refused_with_their_equivalent(keyword: str, hint: str) -> None:
    options: dict[str, Any] = {keyword: 1}
    with pytest.raises(Invalid) as caught:
        Chronos("sqlite://").job(**options)(plain)
    assert str(caught.value).startswith(f'{__name__}.plain: unknown keyword "{keyword}"; {hint}')


def test_every_recommended_keyword_exists() -> None:
    known = get_type_hints(FunctionJobOptions)
    recommended = {equivalent.keyword for equivalent in EQUIVALENT_KEYWORDS.values()} - {None}
    assert recommended <= set(known)
    assert not set(EQUIVALENT_KEYWORDS) & set(known)


def test_an_equivalent_that_a_method_does_not_take_is_not_recommended() -> None:
    with pytest.raises(Invalid, match='unknown keyword "id"; the Python reference'):
        Chronos("sqlite://").command("sync", ["true"], id=1)  # type: ignore[call-arg]


def test_a_webhook_to_a_private_address_names_the_option_of_the_app() -> None:
    with pytest.raises(Invalid) as caught:
        Chronos("sqlite://").webhook("hook", "http://10.0.0.1/x")
    assert str(caught.value).startswith("job hook: url: 10.0.0.1 is ")
    assert str(caught.value).endswith(
        "allow it with Chronos(allow_hosts=[…]), or every private address with allow_private=True"
    )


def test_functions_that_could_never_run_are_refused() -> None:
    app = Chronos("sqlite://")
    with pytest.raises(Invalid, match='isolation="process" imports it by name'):

        @app.job(isolation="process")
        def inner() -> None: ...

    with pytest.raises(Invalid, match="the function has no name; choose one with name="):
        app.job(lambda: None)
    with pytest.raises(Invalid, match="is a generator"):

        @app.job
        def stream(ctx: Context) -> Any:
            yield 1


def test_a_name_can_be_used_once() -> None:
    app = Chronos("sqlite://")
    app.job(plain)
    group = app.group("group")
    group.task(plain)
    for declare_again in (
        lambda: app.job(name="group")(plain),
        lambda: app.group("plain"),
        lambda: app.group("group"),
        lambda: app.webhook("plain", "https://api.example/"),
        lambda: group.task(plain),
    ):
        with pytest.raises(Conflict, match="already"):
            declare_again()


@pytest.mark.parametrize(
    ("make", "part"),
    [
        (lambda app: app.group("etl", cron="0 25 * * *"), "group etl: cron:"),
        (lambda app: app.webhook("w", "ftp://x"), "job w: url"),
        (lambda app: app.webhook("private", "http://127.0.0.1/"), "job private: url"),
        (lambda app: app.command("c", "rm -r x"), "job c: the command is 'rm -r x'"),
        (lambda app: app.group("g").wait("w"), "task g.w: "),
        (lambda app: app.group("g").task(needs=["ghost"])(plain), "plain: needs.0:"),
    ],
)
def test_mistakes_in_groups_and_other_targets_name_them(make: Any, part: str) -> None:
    with pytest.raises(ChronosError) as caught:
        make(Chronos("sqlite://"))
    assert part in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        ({"url": "mysql://ana:secret@db/x"}, 'unknown store "mysql://ana:…@db/x"'),
        (
            {"url": "http://127.0.0.1:8080", "slots": 5},
            "a client of a server does not take slots; configure the server instead",
        ),
        ({"url": "sqlite://", "slots": 0}, "slots must be at least 1"),
        ({"url": "sqlite://", "grace": "soon"}, "grace"),
        ({"url": "sqlite://", "defaults": {"overlap": "never"}}, "defaults: overlap:"),
        ({"url": "sqlite://", "namespace": "a b"}, 'the namespace "a b"'),
    ],
)
def test_wrong_arguments_of_an_app_are_refused(arguments: dict[str, Any], part: str) -> None:
    with pytest.raises(Invalid) as caught:
        Chronos(**arguments)
    assert part in str(caught.value)


def test_python_objects_are_accepted_in_options() -> None:
    class Trouble(Exception):
        """Of this program."""

    app = Chronos("sqlite://")
    first = app.job(name="first")(plain)
    app.job(name="then", after=[{"job": first, "on": "completion"}])(plain)
    retry = {"initial_interval": 2, "max_interval": timedelta(minutes=1), "retry_on": (ValueError, Trouble, "exit_3")}
    app.command("work", ["true"], retry=retry)
    jobs = app._runtime.declared.jobs
    assert [(follow.job, follow.on) for follow in jobs["then"].spec.after] == [("first", UpstreamCondition.COMPLETION)]
    settings = jobs["work"].spec.settings.retry
    assert settings is not None
    assert (settings.initial_us, settings.max_us) == (2_000_000, 60_000_000)
    assert settings.retry_on == ("ValueError", f"{__name__}.{Trouble.__qualname__}", "exit_3")


def test_a_set_means_the_same_job_at_every_start() -> None:
    app = Chronos("sqlite://")
    codes = [f"exit_{code}" for code in range(10, 60)]
    app.command("work", ["true"], retry={"retry_on": {ValueError, *codes}})
    settings = app._runtime.declared.jobs["work"].spec.settings.retry
    assert settings is not None
    assert settings.retry_on == ("ValueError", *codes)


def test_needs_takes_one_task_or_name_without_a_list() -> None:
    app = Chronos("sqlite://")
    group = app.group("etl")
    extract = group.task(name="extract")(plain)
    group.task(name="load", needs=extract)(plain)
    group.task(name="tidy", needs="load")(plain)
    assert [task.needs for task in app._runtime.declared.jobs["etl"].spec.tasks] == [(), ("extract",), ("load",)]


def test_features_that_do_not_exist_yet_are_refused() -> None:
    app = Chronos("sqlite://")
    with pytest.raises(Invalid, match="alerts are not supported yet, so none would be sent; leave the field out"):
        app.job(every="1h", alerts=[{"on": "failure", "slack": "#ops"}])(plain)
    with pytest.raises(Invalid, match="Chronos does not support secrets yet; write the value itself"):
        app.webhook("hook", "https://a.example", every="1h", headers={"X-Key": "{{ secret.KEY }}"})
    assert not app.scheduled_jobs()


def test_several_expressions_are_one_schedule(caplog: pytest.LogCaptureFixture) -> None:
    app = Chronos("sqlite://")
    app.job(cron=["0 9 * * *", "*/90 * * * *"], name="crons")(plain)
    app.job(schedule=("@daily", "Mondays at 17:30"), name="mixed")(plain)
    app.job(at="2030-01-01 18:33", name="once")(plain)
    app.job(every="5m to 10m", name="random")(plain)
    with pytest.raises(Invalid, match=r"cron\.1: cron field"):
        app.job(cron=["0 9 * * *", "0 25 * * *"], name="wrong")(plain)
    infos = {job.name: job.schedule for job in app.all_jobs()}
    assert infos == {
        "crons": "0 9 * * *; also */90 * * * *",
        "mixed": "@daily; also Mondays at 17:30",
        "once": "2030-01-01 18:33",
        "random": "@every 5m to 10m",
    }
    assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == [
        'job "crons": minute "*/90" has a step beyond its range, so it is only 0; for an interval, write "@every 90m"'
    ]
    app.stop()

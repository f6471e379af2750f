"""Wrong arguments of apps, jobs and runs: the message says what is wrong and what to use."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from chronos import Chronos, Invalid, RunInfo


@pytest.mark.parametrize("url", [None, 5, b"sqlite://"])
def test_a_store_address_must_be_text(url: Any) -> None:
    with pytest.raises(Invalid, match="use its address"):
        Chronos(url)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"slots": "x"}, "slots is 'x'"),
        ({"slots": True}, "slots is True"),
        ({"grace": -1}, "grace is -1"),
        ({"timeout_grace": -1}, "timeout_grace is -1"),
        ({"owner": ""}, "owner is ''"),
        ({"owner": 5}, "owner is 5"),
        ({"namespace": 5}, "namespace is 5"),
        ({"timezone": "Mars/Olympus"}, "timezone: unknown time zone 'Mars/Olympus'"),
        ({"timezone": 5}, "timezone is 5"),
        ({"node_name": ""}, "node_name is ''"),
        ({"queues": "default"}, "queues is 'default'; use a list"),
        ({"queues": 5}, "queues is 5"),
        ({"labels": ["eu"]}, "labels is \\['eu'\\]"),
        ({"labels": {"gpus": 2}}, "use an object of texts"),
        ({"allow_hosts": "example.com"}, "allow_hosts is 'example.com'; use a list"),
        ({"defaults": 5}, "defaults: 5 is not an object"),
        ({"defaults": {"retrys": 1}}, "did you mean retry"),
        ({"defaults": {"cron": "@daily"}}, 'unknown keyword "cron"'),
    ],
)
def test_wrong_arguments_of_an_app_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(Invalid, match=message):
        Chronos("sqlite://", **options)


def test_queues_may_be_a_generator() -> None:
    app = Chronos("sqlite://", queues=(name for name in ("mail", "reports")))  # type: ignore[arg-type]

    @app.job(queue="mail")
    async def work() -> int:
        return 5

    with app:
        assert work.trigger().result("60s") == 5


@pytest.mark.parametrize(
    "options", [{"owner": ""}, {"timezone": "Mars/Olympus"}, {"defaults": {"retrys": 1}}, {"namespace": 5}]
)
def test_wrong_arguments_of_a_client_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(Invalid):
        Chronos("http://127.0.0.1:1", **options)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda job: job.trigger(key=5), "key is 5"),
        (lambda job: job.trigger(key=""), "key is ''"),
        (lambda job: job.executions(0), "limit is 0"),
        (lambda job: job.executions("all"), "limit is 'all'"),
        (lambda job: job.trigger().wait([]), "timeout is \\[\\]"),
        (lambda job: job.trigger().wait("soon"), "timeout: "),
    ],
)
def test_wrong_arguments_of_a_job_are_refused(call: Callable[[Any], Any], message: str) -> None:
    app = Chronos("sqlite://")
    job = app.command("work", ["true"])
    with pytest.raises(Invalid, match=message):
        call(job)
    app.stop()


def test_waiting_takes_any_duration_and_a_replay_names_its_original() -> None:
    app = Chronos("sqlite://")

    @app.job
    async def work() -> int:
        return 5

    with app:
        run = work.trigger()
        assert run.wait("20s").result == run.wait(timedelta(seconds=20)).result == run.wait(20.0).result == 5
        again = run.replay().wait("20s")
        assert (again.replay_of, again.job_version, again.recovered, again.span) == (run.id, 1, False, None)
        work.pause()
        [last, _] = work.executions()
        assert isinstance(last, RunInfo)
        assert last.replay_of == run.id


def test_a_run_that_has_not_started_has_no_attempts() -> None:
    app = Chronos("sqlite://")
    app.command("work", ["true"])
    assert app.trigger("work").info().attempts == 0
    app.stop()

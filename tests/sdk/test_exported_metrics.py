"""``Chronos(metrics=registry)``: the metrics of a server in a registry of the program."""

import asyncio
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from chronos import Chronos, Invalid
from chronos.assembly import make_test_store
from chronos.clock import SystemClock
from chronos.observe.metrics import Metrics

SOON_S = 60


def work() -> None: ...


def read_names(text: str) -> set[str]:
    return {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")}


def test_a_program_has_the_metrics_of_a_server(tmp_path: Path) -> None:
    registry = CollectorRegistry()
    app = Chronos(f"sqlite:///{tmp_path / 'jobs.db'}", metrics=registry)
    job, paused = app.job(work), app.job(name="paused", every="1h")(work)
    assert registry.get_sample_value("scheduler_nodes") is None
    with app:
        paused.pause()
        job.trigger().wait(timeout=SOON_S)
        text = generate_latest(registry).decode()
        assert registry.get_sample_value("scheduler_jobs_paused_total") == 1
        assert registry.get_sample_value("scheduler_nodes") == 1
        assert registry.get_sample_value("scheduler_leader") == 1
        labels = {"job": "work", "task": "main", "status": "success"}
        assert registry.get_sample_value("scheduler_task_attempts_total", labels) == 1
    assert registry.get_sample_value("scheduler_leader") == 0
    assert registry.get_sample_value("scheduler_task_attempts_total", labels) == 1  # the last values stay
    of_a_server = Metrics(make_test_store(), SystemClock(), name_of=lambda job: None).render()
    assert read_names(text) == read_names(of_a_server.decode())
    with app:
        assert registry.get_sample_value("scheduler_leader") == 1


def test_a_scrape_on_the_loop_of_the_app_does_not_block(tmp_path: Path) -> None:
    registry = CollectorRegistry()
    app = Chronos(f"sqlite:///{tmp_path / 'jobs.db'}", metrics=registry)
    paused = app.job(name="paused", every="1h")(work)

    async def scrape() -> None:
        async with app, asyncio.timeout(SOON_S):
            await paused.apause()
            while registry.get_sample_value("scheduler_jobs_paused_total") != 1:  # noqa: ASYNC110 - a scrape reads again
                await asyncio.sleep(0)

    asyncio.run(scrape())


def test_a_registry_belongs_to_one_app() -> None:
    registry = CollectorRegistry()
    app = Chronos("sqlite://", metrics=registry)
    with pytest.raises(Invalid, match="the registry has the metrics of another app"):
        Chronos("sqlite://", metrics=registry)
    with pytest.raises(Invalid, match="metrics is True; use a registry"):
        Chronos("sqlite://", metrics=True)  # type: ignore[arg-type]
    assert app.scheduled_jobs() == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"heartbeat_interval": 0}, "heartbeat_interval is 0; use a duration above zero"),
        ({"heartbeat_interval": "20s"}, "heartbeat_timeout must be at least twice heartbeat_interval"),
        ({"reaper_interval": "soon"}, "reaper_interval: "),
        ({"heartbeat_timeout": [1]}, "heartbeat_timeout is"),
    ],
)
def test_wrong_intervals_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(Invalid, match=message):
        Chronos("sqlite://", **options)  # type: ignore[arg-type]


def test_intervals_reach_the_engine() -> None:
    app = Chronos("sqlite://", heartbeat_interval="1s", heartbeat_timeout=3, reaper_interval="500ms", grace="1m")
    options = app._runtime.options
    assert (options.heartbeat_s, options.heartbeat_timeout_s, options.reaper_s, options.grace_s) == (1, 3, 0.5, 60)

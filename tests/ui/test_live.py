"""Signals to open pages: what changed, only for those who may see it, and nothing without viewers."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from chronos.assembly import collect_target_checks, make_runners, make_service, make_test_store
from chronos.clock import SystemClock
from chronos.core.events import ExecutionEnded
from chronos.core.execution import Status
from chronos.core.reasons import ReasonCode
from chronos.errors import Unavailable
from chronos.runners.python.function_registry import FunctionRegistry
from chronos.service.serializers import id_text
from chronos.ui.accounts import Account
from chronos.ui.live import LiveSignals

Scenario = Callable[[LiveSignals, Any], Awaitable[None]]


def _account(*namespaces: str) -> Account:
    return Account(
        name="ana", sees=namespaces.__contains__, sees_everything=False, administers=lambda _: False, has_session=False
    )


def _run(scenario: Scenario) -> None:
    async def with_store() -> None:
        store, clock = make_test_store(), SystemClock()
        await store.open()
        runners = make_runners(FunctionRegistry(), clock=clock)
        service = make_service(store, clock, checks=collect_target_checks(runners))
        signals = LiveSignals(store, clock, limit=2, limit_each=2, heartbeat_s=15)
        try:
            await scenario(signals, service)
        finally:
            await signals.close()
            await store.close()
            for runner in runners.values():
                await runner.close()

    asyncio.run(with_store())


async def _create(service: Any, name: str, namespace: str = "default") -> bytes:
    data = {"name": name, "command": {"argv": ["true"]}, "schedule": "manual"}
    [saved] = await service.job_saver.save([service.jobs.read(data, namespace=namespace)])
    job: bytes = (await service.jobs.get(name, namespace)).id
    assert saved is not None
    return job


def _ended(job: bytes, number: int = 1) -> ExecutionEnded:
    run = number.to_bytes(16)
    code = ReasonCode.SUCCEEDED
    return ExecutionEnded(at_us=1, execution=run, job=job, status=Status.SUCCEEDED, code=code, duration_us=1)


async def _next_topics(chunks: Any) -> bytes:
    async with asyncio.timeout(20):
        async for chunk in chunks:
            if chunk.startswith(b"data:"):
                return bytes(chunk)
    raise AssertionError("the stream ended")


def test_a_viewer_is_told_which_job_and_run_changed() -> None:
    async def scenario(signals: LiveSignals, service: Any) -> None:
        job = await _create(service, "nightly")
        with signals.watch(_account("default"), "default") as viewer:
            chunks = signals.chunks(viewer)
            assert (await anext(chunks)).startswith(b"retry: 2000\nevent: hello")
            signals.note_event(_ended(job))
            topics = await _next_topics(chunks)
            while b"job:nightly" not in topics:  # the hint about the new job may come first
                topics = await _next_topics(chunks)
            assert b'"runs"' in topics
            assert f'"run:{id_text((1).to_bytes(16))}"'.encode() in topics

    _run(scenario)


def test_jobs_of_other_namespaces_are_not_named() -> None:
    async def scenario(signals: LiveSignals, service: Any) -> None:
        secret = await _create(service, "secret", "hr")
        own = await _create(service, "own")
        with signals.watch(_account("default"), "default") as viewer:
            chunks = signals.chunks(viewer)
            signals.note_event(_ended(secret, 1))
            signals.note_event(_ended(own, 2))
            topics = await _next_topics(chunks)
            while b"job:own" not in topics:
                assert b"secret" not in topics
                topics = await _next_topics(chunks)
            assert b"secret" not in topics

    _run(scenario)


def test_many_changes_are_one_word() -> None:
    async def scenario(signals: LiveSignals, service: Any) -> None:
        job = await _create(service, "busy")
        with signals.watch(_account("default"), "default") as viewer:
            chunks = signals.chunks(viewer)
            for number in range(200):
                signals.note_event(_ended(job, number))
            topics = await _next_topics(chunks)
            while b"many" not in topics:
                topics = await _next_topics(chunks)
            assert len(topics) < 200

    _run(scenario)


def _has_viewers(signals: LiveSignals) -> bool:
    return signals.has_viewers


def test_open_pages_are_bounded_and_nothing_is_collected_without_them() -> None:
    async def scenario(signals: LiveSignals, service: Any) -> None:
        job = await _create(service, "nightly")
        assert not _has_viewers(signals)
        signals.note_event(_ended(job))
        account = _account("default")
        with signals.watch(account, "default", "ana"), signals.watch(account, "default", "ana"):
            assert _has_viewers(signals)
            with pytest.raises(Unavailable), signals.watch(account, "default", "ana"):
                pass
        assert not _has_viewers(signals)

    _run(scenario)

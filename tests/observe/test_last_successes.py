"""The metric with the last success of each job."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from chronos.assembly import make_test_store
from chronos.core.config import Overlap
from chronos.core.execution import Status
from chronos.core.job import JobState
from chronos.observe import last_successes, metric_definitions
from chronos.observe.last_successes import LastSuccesses
from chronos.testing.conformance.fixture import StoreFixture

MINUTE_US = 60_000_000


def shown(successes: LastSuccesses) -> dict[str, float]:
    """Return the times by job, as Prometheus gets them."""
    [family] = successes.collect()
    return {sample.labels["job"]: sample.value for sample in family.samples}


def run(check: Callable[[StoreFixture], Awaitable[None]]) -> None:
    async def main() -> None:
        store = make_test_store()
        await store.open()
        fixture = StoreFixture(store)
        await fixture.start_node()
        await check(fixture)
        await store.close()

    asyncio.run(main())


async def end_one(fixture: StoreFixture, name: str, status: Status) -> float:
    """Run a job once. Returns when it ended, in seconds."""
    ended = await fixture.admit_one(name)
    await fixture.settle(ended, status=status)
    execution = await fixture.execution(ended.id)
    assert execution.finished_us is not None
    return execution.finished_us / 1e6


def test_successes_before_the_start_are_read_from_the_history() -> None:
    async def check(fixture: StoreFixture) -> None:
        for name in ("good", "failing", "tolerant", "never", "new"):
            await fixture.save(name, overlap=Overlap.ALLOW)
        expected = {name: await end_one(fixture, name, Status.SUCCEEDED) for name in ("good", "failing")}
        expected["tolerant"] = await end_one(fixture, "tolerant", Status.COMPLETED_WITH_ERRORS)
        for name in ("failing", "never"):
            await end_one(fixture, name, Status.FAILED)
        successes = LastSuccesses(lambda _: None)
        await successes.read_store(fixture.store, fixture.now_us)
        assert shown(successes) == expected

    run(check)


def test_a_success_on_this_node_replaces_an_earlier_one() -> None:
    async def check(fixture: StoreFixture) -> None:
        job = (await fixture.save("good")).id
        earlier = await end_one(fixture, "good", Status.SUCCEEDED)
        successes = LastSuccesses(lambda _: ("default", "good"))
        successes.note(job, round(earlier * 1e6) + 5_000_000)
        await successes.read_store(fixture.store, fixture.now_us)
        assert shown(successes) == {"good": earlier + 5}

    run(check)


def test_deleted_and_disabled_jobs_leave_the_metric() -> None:
    async def check(fixture: StoreFixture) -> None:
        saved = {name: (await fixture.save(name)).id for name in ("kept", "paused", "disabled")}
        names = {job: ("default", name) for name, job in saved.items()} | {b"?" * 16: ("default", "deleted")}
        successes = LastSuccesses(names.get)
        for job in names:
            successes.note(job, 7_000_000)
        assert len(shown(successes)) == 4
        await fixture.set_state(saved["paused"], JobState.PAUSED)
        await fixture.set_state(saved["disabled"], JobState.DISABLED)
        await successes.read_store(fixture.store, fixture.now_us)
        assert shown(successes) == {"kept": 7, "paused": 7}

    run(check)


def test_a_store_with_more_jobs_than_the_limit_shows_those_that_succeed_first(monkeypatch: pytest.MonkeyPatch) -> None:
    async def check(fixture: StoreFixture) -> None:
        monkeypatch.setattr(metric_definitions, "MAX_JOBS", 2)
        saved = {name: (await fixture.save(name)).id for name in "abcd"}
        await end_one(fixture, "a", Status.SUCCEEDED)
        successes = LastSuccesses({job: ("default", name) for name, job in saved.items()}.get)
        for name in "dcba":
            successes.note(saved[name], 7_000_000)
        await successes.read_store(fixture.store, fixture.now_us)
        assert shown(successes) == {"d": 7, "c": 7}
        await fixture.set_state(saved["d"], JobState.DISABLED)
        await successes.read_store(fixture.store, fixture.now_us + MINUTE_US)
        assert shown(successes) == {"c": 7}

    run(check)


def test_histories_are_read_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    async def check(fixture: StoreFixture) -> None:
        monkeypatch.setattr(last_successes, "_LOOKUPS_PER_SCRAPE", 2)
        for name in "abc":
            await fixture.save(name)
            await end_one(fixture, name, Status.SUCCEEDED)
        successes = LastSuccesses(lambda _: None)
        await successes.read_store(fixture.store, fixture.now_us)
        assert len(shown(successes)) == 2
        await successes.read_store(fixture.store, fixture.now_us)
        assert len(shown(successes)) == 3

    run(check)

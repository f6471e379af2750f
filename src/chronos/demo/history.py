"""History of the demo: the engine runs the demo's jobs through 30 virtual days, with people and faults along the way.

Everything is written by the code that also runs in production, so every page can explain it: attempts, retries, dead
letters, a takeover, missed and skipped instants, versions, pauses and the audit log.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from chronos.assembly import Service, collect_target_checks, make_engine, make_runners, make_service, make_test_store
from chronos.clock import Clock
from chronos.core.config import DAY_US, MINUTE_US
from chronos.core.node import Actor
from chronos.demo.behaviour import days, hours
from chronos.demo.jobs import DEMO_JOBS, NEW_REGION, DemoJob, nightly_etl
from chronos.demo.runner import DemoRunner
from chronos.engine.engine import Engine
from chronos.engine.options import EngineOptions
from chronos.runners.contract import Runner
from chronos.runners.python.function_registry import FunctionRegistry
from chronos.service.job_state import StateChange
from chronos.service.serializers.job import read_job
from chronos.store.contract import ExecutionFilter, Store
from chronos.testing.clock import VirtualClock
from chronos.testing.loop import VirtualLoop

HISTORY_US = 30 * DAY_US
_LOGGER = "chronos.demo.history"  # silent: what happened in virtual time is not news
_ANA, _BEN, _DEPLOY = Actor(name="ana"), Actor(name="ben"), Actor(name="deploy")
#: Nodes are alone with a virtual clock, so periodic duties are rare and idle time costs nothing.
_CALM = EngineOptions(
    node_name="node-a",
    slots=200,
    lookahead_s=6 * 3_600,
    tick_s=3_600,
    reaper_s=86_400,
    heartbeat_s=86_400,
    heartbeat_timeout_s=3 * 86_400,
    grace_s=0,
)
#: Nodes that notice each other's death.
_ALERT = replace(_CALM, lookahead_s=60, tick_s=5, reaper_s=5, heartbeat_s=10, heartbeat_timeout_s=30)
_CRASHES_US = days(1) + hours(3)  # before the start of the demo: node-b dies while it works
_OUTAGE_FROM_US, _OUTAGE_TO_US = days(4), days(4) - hours(2)  # no node runs


def wrap_runners(runners: Mapping[str, Runner], *, clock: Clock, start_us: int) -> dict[str, Runner]:
    """Replace the runners of webhooks and commands by runners that invent the attempts of the demo's jobs."""
    behaviours = {job.name: job.behaviour for job in DEMO_JOBS}
    return {
        kind: DemoRunner(kind, runner, behaviours, clock=clock, start_us=start_us)
        if kind in ("command", "http")
        else runner
        for kind, runner in runners.items()
    }


def write_history(file: Path, start_us: int) -> None:
    """Write the 30 days before ``start_us`` to a new SQLite file."""
    logging.getLogger(_LOGGER).disabled = True
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(_write_history(file, start_us))


async def _write_history(file: Path, start_us: int) -> None:
    begin = datetime.fromtimestamp((start_us - HISTORY_US) / 1e6, UTC)
    clock = VirtualClock(start=begin)
    store = make_test_store()
    await store.open()
    try:
        await _Story(store, clock, start_us).tell()
        await store.backup(str(file))
    finally:
        await store.close()


@dataclass(frozen=True, slots=True)
class _Event:
    """What happens at a moment, given as the time before the start of the demo."""

    before_us: int
    happen: Callable[[], Awaitable[object]]


class _Story:
    """The 30 days, event by event."""

    def __init__(self, store: Store, clock: VirtualClock, start_us: int) -> None:
        self._store, self._clock, self._start_us = store, clock, start_us
        self._runners = wrap_runners(make_runners(FunctionRegistry(), clock=clock), clock=clock, start_us=start_us)
        self._checks = collect_target_checks(self._runners)
        self._service: Service = make_service(store, clock, checks=self._checks)
        self._node: Engine | None = None

    async def tell(self) -> None:
        """Let the 30 days pass."""
        await self._save([job for job in DEMO_JOBS if job.since_us >= HISTORY_US])
        await self._start_node()
        for event in sorted(self._list_events(), key=lambda event: -event.before_us):
            await self._sleep_until(event.before_us)
            await event.happen()
        await self._sleep_until(0)
        await self._stop_node()
        for runner in self._runners.values():
            await runner.close()

    def _list_events(self) -> list[_Event]:
        newer = [job for job in DEMO_JOBS if job.since_us < HISTORY_US]
        return [
            *(_Event(job.since_us, lambda job=job: self._save([job])) for job in newer),  # type: ignore[misc]
            _Event(
                days(20),
                lambda: self._change_state("old-importer", StateChange.DISABLE, "replaced by price-import", _BEN),
            ),
            _Event(days(12), lambda: self._trigger("sales-report", "the board asked for it", _ANA)),
            _Event(days(9), lambda: self._trigger("inventory-sync", "stock was corrected by hand", _BEN)),
            _Event(days(6) - hours(1), lambda: self._trigger("hotfix-migration", "OPS-4077", _ANA)),
            _Event(_OUTAGE_FROM_US, self._stop_node),
            _Event(_OUTAGE_TO_US, self._start_node),
            _Event(
                days(3),
                lambda: self._change_state("partner-feed", StateChange.PAUSE, "partner API is down, OPS-4121", _ANA),
            ),
            _Event(days(2.6), self._move_warehouse),
            _Event(_CRASHES_US, self._crash_a_node),
            _Event(hours(20), self._replay_a_failure),
            _Event(hours(6), self._cancel_a_run),
        ]

    async def _sleep_until(self, before_us: int) -> None:
        left_us = self._start_us - before_us - self._clock.now_us()
        await asyncio.sleep(max(0, left_us) / 1e6)

    # --- nodes

    async def _start_node(self) -> None:
        self._node = self._make_node(_CALM)
        await self._node.start()

    async def _stop_node(self) -> None:
        if self._node is not None:
            await self._node.stop(0)
        self._node = None

    def _make_node(self, options: EngineOptions) -> Engine:
        return make_engine(
            self._store,
            clock=self._clock,
            options=options,
            functions=FunctionRegistry(),
            runners=self._runners,
            logger=_LOGGER,
        )

    async def _crash_a_node(self) -> None:
        """Let node-b take a long run and die. node-a notices and takes over."""
        await self._stop_node()
        dying = self._make_node(replace(_ALERT, node_name="node-b"))
        await dying.start()
        await self._trigger("video-transcode", "a customer waits for it", _BEN)
        await asyncio.sleep(90)
        await dying.crash()
        heir = self._make_node(_ALERT)
        await heir.start()
        await asyncio.sleep(20 * 60)
        await heir.stop(0)
        await self._start_node()

    # --- people

    async def _save(self, jobs: list[DemoJob], actor: Actor = _DEPLOY) -> None:
        drafts = [read_job(job.definition, checks=self._checks) for job in jobs]
        await self._service.job_saver.save(drafts, actor=actor)

    async def _move_warehouse(self) -> None:
        draft = read_job(nightly_etl(region_eu=NEW_REGION), checks=self._checks)
        await self._service.job_saver.save([draft], actor=_BEN)

    async def _change_state(self, name: str, change: StateChange, reason: str, actor: Actor) -> None:
        await self._service.job_states.change(await self._service.jobs.get(name), change, reason=reason, actor=actor)

    async def _trigger(self, name: str, reason: str, actor: Actor) -> None:
        await self._service.runs.trigger(name, reason=reason, actor=actor)

    async def _replay_a_failure(self) -> None:
        job = await self._service.jobs.get("nightly-etl")
        page = await self._store.list_executions(ExecutionFilter(job=job.id, troubled=True), limit=1, cursor=None)
        for failed in page.items:
            await self._service.runs.replay(failed.id, reason="the warehouse is back", from_failed=True, actor=_ANA)

    async def _cancel_a_run(self) -> None:
        triggered = await self._service.runs.trigger("warehouse-vacuum", reason="test", actor=_BEN)
        await asyncio.sleep(5 * MINUTE_US / 1e6)
        await self._service.runs.cancel(triggered.id, message="it slowed the shop down", actor=_BEN)

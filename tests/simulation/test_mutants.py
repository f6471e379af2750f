"""Each safeguard is taken out once, and the checker must notice: a checker that never finds anything proves nothing.

Each mutant lives in a small world with much of what its safeguard is there for, and nearly every such world shows it:
of three fixed seeds one is enough. The same worlds are innocent when nothing is spoilt.
"""

from dataclasses import dataclass, replace

import pytest

from chronos.core.config import Overlap
from chronos.core.job import UpstreamCondition, UpstreamJob
from tests.simulation import mutants
from tests.simulation.checker import Verdict, judge
from tests.simulation.history import Fault
from tests.simulation.jobs import SimJob
from tests.simulation.scenario import SLOW, Scenario
from tests.simulation.store_link import CALM, Odds
from tests.simulation.world import simulate

SEEDS = (1, 2, 3)
BRIEF = tuple(
    SimJob(name=f"brief-{overlap.value}", cron="0 */2 * * *", overlap=overlap)
    for overlap in (Overlap.SKIP, Overlap.QUEUE, Overlap.ALLOW)
)
LONG = tuple(
    SimJob(name=f"slow-{n}", cron=f"0 {n}-23/4 * * *", overlap=overlap, longest_s=12 * 3_600, attempts=9)
    for n, overlap in enumerate((Overlap.SKIP, Overlap.QUEUE, Overlap.SKIP, Overlap.QUEUE))
)
CHANGING = tuple(
    SimJob(name=f"changing-{n}", cron="0 */8 * * *", others=(f"{30 + n} */7 * * *",), overlap=Overlap.ALLOW)
    for n in range(3)
)
STEPS = tuple(
    SimJob(name=f"steps-{n}", cron=f"{n} */6 * * *", tasks=3, failing=0.7, attempts=2, overlap=Overlap.QUEUE)
    for n in range(3)
)
CHAIN = (
    SimJob(name="before", cron="0 */3 * * *", failing=0.3, attempts=1),
    SimJob(name="after", after=(UpstreamJob(job="before", on=UpstreamCondition.SUCCESS),), overlap=Overlap.ALLOW),
    SimJob(name="anyway", after=(UpstreamJob(job="before", on=UpstreamCondition.COMPLETION),), overlap=Overlap.QUEUE),
)
#: Outcomes may arrive when their senders are long taken for dead.
CRAWLING = replace(CALM, crawl=0.8, crawls_s=7 * 3_600)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A mutant, the world in which it shows, and as what."""

    spoil: type[mutants.Mutant] = mutants.Mutant
    patch: mutants.Patch = mutants.no_patch
    world: Scenario
    verdict: Verdict


def world(
    jobs: tuple[SimJob, ...], faults: dict[Fault, float], *, one_clock: bool = False, odds: Odds = CALM
) -> Scenario:
    return Scenario(
        seed=0,
        days=4,
        healing_days=1.5,
        jobs=jobs,
        faults=faults,
        one_clock=one_clock,
        odds=odds,
        options=replace(SLOW, reaper_s=SLOW.heartbeat_s / 2),
        deeds=0.0,
    )


CASES = {
    "no unique constraint": Case(spoil=mutants.NoUniqueConstraint, world=world(BRIEF, {}), verdict=Verdict.DUPLICATE),
    "cursor moved first": Case(spoil=mutants.CursorMovedFirst, world=world(BRIEF, {}), verdict=Verdict.MISSED),
    "no overlap check": Case(spoil=mutants.NoOverlapCheck, world=world(LONG, {}), verdict=Verdict.OVERLAP),
    "no fencing": Case(
        spoil=mutants.NoFencing, world=world(LONG, {Fault.CRASH: 16.0}, odds=CRAWLING), verdict=Verdict.ZOMBIE
    ),
    "no reaper": Case(patch=mutants.no_reaper, world=world(LONG, {Fault.CRASH: 8.0}), verdict=Verdict.STUCK),
    "deaf": Case(spoil=mutants.Deaf, world=replace(world(LONG, {}), deeds=20.0), verdict=Verdict.IGNORED),
    "hasty updates": Case(
        patch=mutants.hasty_updates, world=replace(world(CHANGING, {}), deeds=20.0), verdict=Verdict.MISSED
    ),
    "no keys": Case(
        spoil=mutants.NoKeys,
        world=replace(world(BRIEF, {}, odds=replace(CALM, lose_ack=0.2)), deeds=20.0),
        verdict=Verdict.DUPLICATE,
    ),
    "nothing carried": Case(
        spoil=mutants.NothingCarried, world=replace(world(STEPS, {}), deeds=20.0), verdict=Verdict.DUPLICATE
    ),
    "short backfills": Case(
        patch=mutants.short_backfills, world=replace(world(BRIEF, {}), deeds=20.0), verdict=Verdict.MISSED
    ),
    "no dead letters": Case(spoil=mutants.NoDeadLetters, world=world(STEPS, {}), verdict=Verdict.UNTOLD),
    "forgetful outbox": Case(spoil=mutants.ForgetfulOutbox, world=world(CHAIN, {}), verdict=Verdict.MISSED),
    "time before the read": Case(
        patch=mutants.time_before_the_read, world=world(LONG, {Fault.STALL: 16.0}), verdict=Verdict.KILLED
    ),
    "wall clock": Case(
        patch=mutants.wall_clock, world=world(LONG, {Fault.JUMP: 24.0}, one_clock=True), verdict=Verdict.OVERLAP
    ),
}


def found(scenario: Scenario, spoil: type[mutants.Mutant] = mutants.Mutant) -> set[Verdict]:
    evidence = simulate(scenario, wrap=lambda store: mutants.as_store(spoil(store)))
    return {finding.verdict for finding in judge(evidence)} - {Verdict.QUIET}


@pytest.mark.parametrize("name", CASES)
def test_a_mutant_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case = CASES[name]
    case.patch(monkeypatch)
    assert any(case.verdict in found(replace(case.world, seed=seed), case.spoil) for seed in SEEDS)


@pytest.mark.parametrize("name", CASES)
def test_nothing_is_found_where_nothing_was_spoilt(name: str) -> None:
    assert found(replace(CASES[name].world, seed=SEEDS[0])) == set()

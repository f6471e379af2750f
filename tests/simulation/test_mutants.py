"""Each safeguard is removed once, and the checker must notice: a checker that never finds anything proves nothing.

Each mutant runs in a small world with many of the faults that its safeguard is for. One of three fixed seeds must show
it. The same worlds have no findings when nothing is removed.
"""

from dataclasses import dataclass, replace

import pytest

from chronos.core.config import Overlap
from chronos.core.job import UpstreamCondition, UpstreamJob
from tests.simulation import mutants
from tests.simulation.checker import check_evidence
from tests.simulation.history import Fault
from tests.simulation.jobs import SimJob
from tests.simulation.scenario import SLOW, Scenario
from tests.simulation.store_link import CALM, Odds
from tests.simulation.world import simulate
from tests.support.verdicts import Verdict

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
#: Outcomes may arrive long after their senders were declared dead.
VERY_LATE = replace(CALM, very_late=0.8, very_late_s=7 * 3_600)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A mutant, the world that shows it, and the expected verdict."""

    mutant: type[mutants.Mutant] = mutants.Mutant
    patch: mutants.Patch = mutants.no_patch
    world: Scenario
    verdict: Verdict


def make_world(
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
        actions=0.0,
    )


CASES = {
    "no unique constraint": Case(
        mutant=mutants.NoUniqueConstraint, world=make_world(BRIEF, {}), verdict=Verdict.DUPLICATE
    ),
    "cursor moved first": Case(mutant=mutants.CursorMovedFirst, world=make_world(BRIEF, {}), verdict=Verdict.MISSED),
    "no overlap check": Case(mutant=mutants.NoOverlapCheck, world=make_world(LONG, {}), verdict=Verdict.OVERLAP),
    "no fencing": Case(
        mutant=mutants.NoFencing, world=make_world(LONG, {Fault.CRASH: 16.0}, odds=VERY_LATE), verdict=Verdict.UNFENCED
    ),
    "no reaper": Case(patch=mutants.no_reaper, world=make_world(LONG, {Fault.CRASH: 8.0}), verdict=Verdict.STUCK),
    "ignores actions": Case(
        mutant=mutants.IgnoresActions, world=replace(make_world(LONG, {}), actions=20.0), verdict=Verdict.IGNORED
    ),
    "immediate updates": Case(
        patch=mutants.immediate_updates, world=replace(make_world(CHANGING, {}), actions=20.0), verdict=Verdict.MISSED
    ),
    "no keys": Case(
        mutant=mutants.NoKeys,
        world=replace(make_world(BRIEF, {}, odds=replace(CALM, lose_ack=0.2)), actions=20.0),
        verdict=Verdict.DUPLICATE,
    ),
    "repeats succeeded tasks": Case(
        mutant=mutants.RepeatsSucceededTasks,
        world=replace(make_world(STEPS, {}), actions=20.0),
        verdict=Verdict.DUPLICATE,
    ),
    "short backfills": Case(
        patch=mutants.short_backfills, world=replace(make_world(BRIEF, {}), actions=20.0), verdict=Verdict.MISSED
    ),
    "no dead letters": Case(
        mutant=mutants.NoDeadLetters, world=make_world(STEPS, {}), verdict=Verdict.WRONG_DEAD_LETTER
    ),
    "drops outbox items": Case(mutant=mutants.DropsOutboxItems, world=make_world(CHAIN, {}), verdict=Verdict.MISSED),
    "time before the read": Case(
        patch=mutants.time_before_the_read, world=make_world(LONG, {Fault.STALL: 16.0}), verdict=Verdict.KILLED
    ),
    "wall clock": Case(
        patch=mutants.wall_clock, world=make_world(LONG, {Fault.JUMP: 24.0}, one_clock=True), verdict=Verdict.OVERLAP
    ),
}


def find_verdicts(scenario: Scenario, mutant: type[mutants.Mutant] = mutants.Mutant) -> set[Verdict]:
    evidence = simulate(scenario, wrap=lambda store: mutants.as_store(mutant(store)))
    return {finding.verdict for finding in check_evidence(evidence)} - {Verdict.TOO_FEW_FAULTS}


@pytest.mark.parametrize("name", CASES)
def test_a_mutant_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case = CASES[name]
    case.patch(monkeypatch)
    assert any(case.verdict in find_verdicts(replace(case.world, seed=seed), case.mutant) for seed in SEEDS)


@pytest.mark.parametrize("name", CASES)
def test_worlds_without_a_mutant_have_no_findings(name: str) -> None:
    assert find_verdicts(replace(CASES[name].world, seed=SEEDS[0])) == set()

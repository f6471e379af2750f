"""Real engines on a real store through days of trouble; afterwards nothing may be missing, double, early or stuck.

A failure names the command that shows it again, by its seed. ``CHRONOS_SIMULATED_DAYS`` asks for as many days in all of
the slow test; the usual suite takes some seconds.
"""

import os
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest

from chronos.core.config import Overlap
from chronos.engine.options import EngineOptions
from tests.simulation.checker import judge
from tests.simulation.history import Deed, Fate, Fault
from tests.simulation.jobs import SimJob
from tests.simulation.scenario import OFTEN, Scenario
from tests.simulation.store_link import Odds
from tests.simulation.world import simulate

DAYS = 4
SEED = os.environ.get("CHRONOS_SEED")
SEEDS = [1, 2] if SEED is None else [int(SEED)]
WORLD_DAYS = 10


def check(scenario: Scenario) -> None:
    evidence = simulate(scenario)
    findings = judge(evidence, least_faults=0)
    landed = sum(evidence.history.faults[fault] for fault in scenario.faults)  # beside what the wires lose
    again = f"CHRONOS_SEED={scenario.seed} pytest '{os.environ['PYTEST_CURRENT_TEST'].removesuffix(' (call)')}'"
    assert not findings, f"{again}\n" + "\n".join(map(str, findings[:20]))
    assert landed >= scenario.days, f"{again}: only {landed} faults landed"


@pytest.mark.parametrize("one_clock", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_days_of_trouble(seed: int, one_clock: bool) -> None:
    check(Scenario(seed=seed, days=DAYS, one_clock=one_clock, faults=OFTEN))


def test_one_machine_alone() -> None:
    check(Scenario(seed=7, days=DAYS, machines=1, one_clock=True, faults=OFTEN))


def test_minutes_of_trouble_with_the_usual_options() -> None:
    """Heartbeats of ten seconds and ticks of one: the figures of the promises themselves, for a quarter of an hour."""
    check(QUICK)


def test_a_seed_is_all_it_takes_to_see_it_again() -> None:
    first, second = (simulate(Scenario(seed=11, days=1)) for _ in range(2))
    assert first.history.runs == second.history.runs
    assert first.history.faults == second.history.faults
    assert first.history.changes == second.history.changes
    assert {record.id: record.token for record in first.records} == {r.id: r.token for r in second.records}


def test_trouble_is_what_it_is_said_to_be() -> None:
    """The faults are felt: work is killed, taken over and done again, and people get what they ask for."""
    evidence = simulate(Scenario(seed=3, days=DAYS, faults=OFTEN, deeds=25))
    assert {run.machine for run in evidence.history.runs} == {"m0", "m1", "m2"}
    assert {run.fate for run in evidence.history.runs} == set(Fate)
    assert any(run.number > 1 for run in evidence.history.runs)
    assert {fault for fault, count in evidence.history.faults.items() if count} == set(Fault)
    assert set(evidence.history.deeds) == set(Deed)
    assert 25 * DAYS < len(evidence.records) < 60 * DAYS


@pytest.mark.slow
def test_many_worlds() -> None:
    """A thousand days by default, each world of its own seed, on every core there is."""
    days = int(os.environ.get("CHRONOS_SIMULATED_DAYS", "1000"))
    seeds = range(1_000, 1_000 + days // WORLD_DAYS) if SEED is None else SEEDS
    cores = min(len(os.sched_getaffinity(0)), len(seeds))
    begun_s = time.perf_counter()
    with ProcessPoolExecutor(cores, mp_context=get_context("spawn")) as processes:
        worked_s = sum(processes.map(live_through, seeds))
    lived, took_s = len(seeds) * WORLD_DAYS * 60, time.perf_counter() - begun_s
    print(f"{lived / took_s:.0f} simulated days a minute on {cores} cores, {lived / worked_s:.0f} on one")


def live_through(seed: int) -> float:
    """One world of many; how much work it was, in seconds."""
    begun_s = time.process_time()
    check(Scenario(seed=seed, one_clock=seed % 2 == 1, faults=OFTEN, machines=2 + seed % 3 // 2))
    return time.process_time() - begun_s


QUICK = Scenario(
    seed=5,
    days=15 / 1_440,
    healing_days=6 / 1_440,
    options=EngineOptions(),
    jobs=(
        SimJob(name="often", every_s=15, longest_s=5, recovery_after_us=30_000_000, backoff_us=1_000_000),
        SimJob(name="slow", every_s=40, longest_s=60, recovery_after_us=30_000_000, backoff_us=1_000_000),
        SimJob(name="queue", every_s=50, longest_s=45, overlap=Overlap.QUEUE, backoff_us=1_000_000),
        SimJob(name="replace", every_s=60, longest_s=90, overlap=Overlap.REPLACE, backoff_us=1_000_000),
        SimJob(name="allow", every_s=20, longest_s=30, overlap=Overlap.ALLOW, failing=0.3, backoff_us=1_000_000),
    ),
    odds=Odds(longest_s=1.0, refused_s=5.0),
    faults={fault: 150 * a_day for fault, a_day in OFTEN.items()},
    deeds=1_000,
)

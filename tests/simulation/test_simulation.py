"""Real engines on a real store through days of faults: nothing may be missing, duplicate, early or stuck.

A failure names the command that reproduces it, with its seed. ``CHRONOS_SIMULATED_DAYS`` sets the number of days of the
slow test; the usual suite takes seconds.
"""

import os
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest

from chronos.core.config import Overlap
from chronos.engine.options import EngineOptions
from tests.simulation.checker import check_evidence
from tests.simulation.history import Action, Fault, RunOutcome
from tests.simulation.jobs import SimJob
from tests.simulation.scenario import FREQUENT_FAULTS, Scenario
from tests.simulation.store_link import Odds
from tests.simulation.world import simulate

DAYS = 4
SEED = os.environ.get("CHRONOS_SEED")
SEEDS = [1, 2] if SEED is None else [int(SEED)]
WORLD_DAYS = 10


def check_scenario(scenario: Scenario) -> None:
    evidence = simulate(scenario)
    findings = check_evidence(evidence, least_faults=0)
    caused = sum(evidence.history.faults[fault] for fault in scenario.faults)  # besides those of the link
    command = f"CHRONOS_SEED={scenario.seed} pytest '{os.environ['PYTEST_CURRENT_TEST'].removesuffix(' (call)')}'"
    assert not findings, f"{command}\n" + "\n".join(map(str, findings[:20]))
    assert caused >= scenario.days, f"{command}: only {caused} faults"


@pytest.mark.parametrize("one_clock", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_days_of_faults_break_no_promise(seed: int, one_clock: bool) -> None:
    check_scenario(Scenario(seed=seed, days=DAYS, one_clock=one_clock, faults=FREQUENT_FAULTS))


def test_a_single_machine_breaks_no_promise() -> None:
    check_scenario(Scenario(seed=7, days=DAYS, machines=1, one_clock=True, faults=FREQUENT_FAULTS))


def test_minutes_of_faults_with_the_default_options_break_no_promise() -> None:
    """Heartbeats of ten seconds and ticks of one, which are the real defaults, for a quarter of an hour."""
    check_scenario(QUICK)


def test_a_seed_reproduces_a_world() -> None:
    first, second = (simulate(Scenario(seed=11, days=1)) for _ in range(2))
    assert first.history.runs == second.history.runs
    assert first.history.faults == second.history.faults
    assert first.history.changes == second.history.changes
    assert {record.id: record.token for record in first.records} == {r.id: r.token for r in second.records}


def test_a_world_has_every_fault_and_action() -> None:
    """Work is killed, taken over and repeated, and every action succeeds at least once."""
    evidence = simulate(Scenario(seed=3, days=DAYS, faults=FREQUENT_FAULTS, actions=25))
    assert {run.machine for run in evidence.history.runs} == {"m0", "m1", "m2"}
    assert {run.outcome for run in evidence.history.runs} == set(RunOutcome)
    assert any(run.number > 1 for run in evidence.history.runs)
    assert {fault for fault, count in evidence.history.faults.items() if count} == set(Fault)
    assert set(evidence.history.actions) == set(Action)
    assert 25 * DAYS < len(evidence.records) < 60 * DAYS


@pytest.mark.slow
def test_many_worlds_break_no_promise() -> None:
    """A thousand days by default, each world with its own seed, on every core."""
    days = int(os.environ.get("CHRONOS_SIMULATED_DAYS", "1000"))
    seeds = range(1_000, 1_000 + days // WORLD_DAYS) if SEED is None else SEEDS
    cores = min(len(os.sched_getaffinity(0)), len(seeds))
    started_s = time.perf_counter()
    with ProcessPoolExecutor(cores, mp_context=get_context("spawn")) as processes:
        cpu_s = sum(processes.map(check_world, seeds))
    simulated, took_s = len(seeds) * WORLD_DAYS * 60, time.perf_counter() - started_s
    print(f"{simulated / took_s:.0f} simulated days per minute on {cores} cores, {simulated / cpu_s:.0f} on one")


def check_world(seed: int) -> float:
    """Check one world of many. Returns the CPU time in seconds."""
    started_s = time.process_time()
    check_scenario(Scenario(seed=seed, one_clock=seed % 2 == 1, faults=FREQUENT_FAULTS, machines=2 + seed % 3 // 2))
    return time.process_time() - started_s


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
    odds=Odds(longest_s=1.0, max_unreachable_s=5.0),
    faults={fault: 150 * per_day for fault, per_day in FREQUENT_FAULTS.items()},
    actions=1_000,
)

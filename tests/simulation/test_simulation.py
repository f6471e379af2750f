"""Real engines on a real store through days of trouble; afterwards nothing may be missing, double, early or stuck.

A failure names its seed: ``CHRONOS_SEED=17 pytest tests/simulation`` runs that world alone. ``CHRONOS_SIMULATED_DAYS``
asks for as many days in all; the usual suite takes a few seconds of it.
"""

import os

import pytest

from tests.simulation.checker import judge
from tests.simulation.history import Fate, Fault
from tests.simulation.world import Scenario, simulate

DAYS = 4
SEEDS = [int(os.environ["CHRONOS_SEED"])] if "CHRONOS_SEED" in os.environ else [1, 2]
OUTAGES = {Fault.CRASH: 2.0, Fault.FREEZE: 1.5, Fault.CUT: 1.5, Fault.OUTAGE: 0.5, Fault.JUMP: 1.0}


def check(scenario: Scenario) -> None:
    evidence = simulate(scenario)
    findings = judge(evidence, least_faults=0)
    landed = sum(evidence.history.faults[fault] for fault in scenario.faults)  # beside what the wires lose
    assert not findings, f"seed {scenario.seed}, one clock: {scenario.one_clock}\n" + "\n".join(map(str, findings[:20]))
    assert not scenario.faults or landed >= scenario.days, f"seed {scenario.seed}: only {landed} faults landed"


@pytest.mark.parametrize("one_clock", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_days_of_trouble(seed: int, one_clock: bool) -> None:
    check(Scenario(seed=seed, days=DAYS, one_clock=one_clock, faults=OUTAGES))


def test_one_machine_alone() -> None:
    check(Scenario(seed=7, days=DAYS, machines=1, one_clock=True, faults=OUTAGES))


def test_a_seed_is_all_it_takes_to_see_it_again() -> None:
    first, second = (simulate(Scenario(seed=11, days=1)) for _ in range(2))
    assert first.history.runs == second.history.runs
    assert first.history.faults == second.history.faults
    assert {record.id: record.token for record in first.records} == {r.id: r.token for r in second.records}


def test_trouble_is_what_it_is_said_to_be() -> None:
    """The faults are felt: work is killed, taken over and done again, and outcomes come from all machines."""
    evidence = simulate(Scenario(seed=3, days=DAYS, faults=OUTAGES))
    assert {run.machine for run in evidence.history.runs} == {"m0", "m1", "m2"}
    assert {run.fate for run in evidence.history.runs} >= {Fate.DONE, Fate.FAILED, Fate.KILLED}
    assert any(run.number > 1 for run in evidence.history.runs)
    assert {fault for fault, count in evidence.history.faults.items() if count} == set(Fault)


@pytest.mark.slow
def test_many_worlds() -> None:
    """A thousand days by default, each world of its own seed."""
    days = int(os.environ.get("CHRONOS_SIMULATED_DAYS", "1000"))
    for seed in range(1_000, 1_000 + days // 10):
        check(Scenario(seed=seed, days=8.5, one_clock=seed % 2 == 1, faults=OUTAGES if seed % 3 else {}))

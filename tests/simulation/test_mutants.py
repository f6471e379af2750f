"""Each safeguard is taken out once, and the checker must notice: a checker that never finds anything proves nothing."""

from dataclasses import replace

import pytest

from tests.simulation import mutants
from tests.simulation.checker import Verdict, judge
from tests.simulation.history import Fault
from tests.simulation.wire import Odds
from tests.simulation.world import Scenario, simulate

DAYS = 2
SEEDS = range(4, 20)  # it may take luck: an outcome must come just while another works


def found(scenario: Scenario, spoil: type[mutants.Mutant] = mutants.Mutant) -> set[Verdict]:
    evidence = simulate(scenario, wrap=lambda store: mutants.as_store(spoil(store)))
    return {finding.verdict for finding in judge(evidence)} - {Verdict.QUIET}


@pytest.mark.parametrize(
    ("spoil", "fault", "verdict"),
    [
        (mutants.NoUniqueConstraint, None, Verdict.DUPLICATE),
        (mutants.CursorMovedFirst, None, Verdict.MISSED),
        (mutants.NoOverlapCheck, None, Verdict.OVERLAP),
    ],
)
def test_a_spoilt_store_is_noticed(spoil: type[mutants.Mutant], fault: Fault | None, verdict: Verdict) -> None:
    assert any(verdict in found(scenario(fault, seed), spoil) for seed in SEEDS)


def test_missing_fences_are_noticed() -> None:
    """Commands that take hours arrive when their sender is long taken for dead."""
    slow = [replace(scenario(None, seed), odds=Odds(delay=0.1, longest_s=6 * 3_600)) for seed in SEEDS]
    assert any(Verdict.ZOMBIE in found(each, mutants.NoFencing) for each in slow)
    assert Verdict.ZOMBIE not in found(slow[0])


def test_a_missing_reaper_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    mutants.no_reaper(monkeypatch)
    assert any(Verdict.STUCK in found(scenario(Fault.CRASH, seed)) for seed in SEEDS)


def test_waiting_by_the_clock_on_the_wall_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    mutants.wall_clock(monkeypatch)
    assert any(Verdict.OVERLAP in found(scenario(Fault.JUMP, seed, one_clock=True)) for seed in SEEDS)


@pytest.mark.parametrize(("fault", "one_clock"), [(None, False), (Fault.CRASH, False), (Fault.JUMP, True)])
def test_nothing_is_found_where_nothing_was_spoilt(fault: Fault | None, one_clock: bool) -> None:
    assert found(scenario(fault, SEEDS[0], one_clock=one_clock)) == set()


def scenario(fault: Fault | None, seed: int, *, one_clock: bool = False) -> Scenario:
    """A short world with much of one fault, beside what the wires lose."""
    faults = {} if fault is None else {fault: 6.0}
    return Scenario(seed=seed, days=DAYS, faults=faults, one_clock=one_clock, healing_days=1)

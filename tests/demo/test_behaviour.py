"""Behaviours of the demo's jobs: deterministic, and in trouble only when they should be."""

from hypothesis import given
from hypothesis import strategies as st

from chronos.demo.behaviour import Behaviour, Trouble, days, decide_act, hours

BEHAVIOUR = Behaviour(
    usual_s=10,
    troubles=(Trouble(error="down", from_us=hours(5), to_us=hours(3), task="load", attempts=2),),
)


@given(scheduled_us=st.integers(0, 2**53), number=st.integers(1, 9), before_us=st.integers(-days(1), days(30)))
def test_the_same_attempt_always_does_the_same(scheduled_us: int, number: int, before_us: int) -> None:
    acts = [
        decide_act(BEHAVIOUR, job="etl", task="load", scheduled_us=scheduled_us, number=number, before_us=before_us)
        for _ in range(2)
    ]
    assert acts[0] == acts[1]
    assert 7.5 <= acts[0].duration_s <= 50
    assert (acts[0].trouble is not None) == (hours(3) <= before_us <= hours(5) and number <= 2)


def test_a_trouble_belongs_to_one_task() -> None:
    act = decide_act(BEHAVIOUR, job="etl", task="report", scheduled_us=0, number=1, before_us=hours(4))
    assert act.trouble is None


def test_a_share_of_the_runs_is_in_trouble_in_all_their_attempts() -> None:
    behaviour = Behaviour(troubles=(Trouble(error="down", share=0.25),))
    failed = 0
    for run in range(400):
        attempts = {
            decide_act(behaviour, job="j", task="main", scheduled_us=run, number=number, before_us=0).trouble is None
            for number in (1, 2, 3)
        }
        assert len(attempts) == 1
        failed += attempts == {False}
    assert 60 <= failed <= 140
